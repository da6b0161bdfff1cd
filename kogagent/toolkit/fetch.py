"""A tool that gets pages from hosts on a list. Knows addresses and HTTP; no models.

The name is looked up once and its addresses are checked; the connection goes to a checked address, so that a
name cannot point elsewhere a moment later. Every redirect passes the same gate.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import SplitResult, urljoin, urlsplit

from pydantic import Field

from kogagent.errors import InputError, MissingExtraError, Retry, ToolFailed
from kogagent.toolkit.pages import text_of
from kogagent.toolkit.process import TOOL_PATIENCE_S, ProcessLimits
from kogagent.tools.tool import Tool

if TYPE_CHECKING:
    import httpcore2

_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?|\*")
_TEXTS = ("text/", "application/json", "application/xml", "application/xhtml", "application/javascript")
_PORTS = {"https": 443, "http": 80}


def fetch_tools(
    allow: Sequence[str],
    *,
    http: bool = False,
    private: bool = False,
    seconds: float = 20.0,
    max_bytes: int = 2 << 20,
    max_redirects: int = 5,
    needs_approval: bool = False,
    user_agent: str = "kogagent",
) -> tuple[Tool[..., Any], ...]:
    """`fetch`: the text of a page from one of these hosts: "example.com", "*.example.com" for what is below
    it, "example.com:8443" for another port, "*" for every host.

    Only https, unless http is set. Addresses that are not public (loopback, private, link-local, reserved)
    are refused unless private is set, whatever name leads to them. Nothing is sent but the request: no
    cookies, no environment's proxy. Raises InputError; MissingExtraError without the extra `fetch`.
    """
    try:
        import httpcore2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("fetch_tools", "httpcore2", "fetch") from error
    if isinstance(allow, str) or not all(isinstance(host, str) for host in allow):
        raise InputError(f"allow={allow!r} must be a list of hosts")
    for host in allow:
        if not _HOST.fullmatch(host):
            raise InputError(
                f"allow has {host!r}: write a host in lower case, as in 'example.com' or '*.example.com:8443'"
            )
    for name, value in (("seconds", seconds), ("max_bytes", max_bytes), ("max_redirects", max_redirects)):
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or value < (name == "seconds") * 0.001
        ):
            raise InputError(f"fetch_tools {name}={value!r} must be a positive number")
    gate = Gate(tuple(allow), http, private)
    reading = ProcessLimits(seconds=seconds, processes=2, output_bytes=8 * max_bytes)

    async def fetch(url: Annotated[str, Field(min_length=1, max_length=2000)], raw: bool = False) -> str:
        """Get a page from the web as text.

        Args:
            url: its address
            raw: whether HTML is given as it is, not as its text
        """
        try:
            async with asyncio.timeout(seconds):
                page = await _get(gate, url, max_bytes, max_redirects, user_agent)
        except TimeoutError as error:
            raise ToolFailed(f"{url}: no answer within {seconds:g} s") from error
        text = page.text()
        if "html" in page.kind and not raw:
            text = await text_of(text, page.url, reading)
        return page.told(text)

    hosts = ", ".join(allow) or "none"
    tool = Tool(
        fetch,
        description=f"Get a page from the web as text. The hosts: {hosts}.",
        needs_approval=needs_approval,
        timeout=2 * seconds + TOOL_PATIENCE_S,
    )
    return (tool,)


@dataclass(frozen=True, slots=True)
class Gate:
    """What may be connected to."""

    allow: tuple[str, ...]
    http: bool
    private: bool

    def url(self, text: str) -> tuple[str, str, int]:
        """(address as it is asked for, host, port). Raises Retry for what is not allowed."""
        try:
            parts = urlsplit(text.strip())
            port = parts.port or _PORTS.get(parts.scheme, 0)
            host = (parts.hostname or "").rstrip(".").encode("idna").decode().lower()
        except (ValueError, UnicodeError) as error:
            raise Retry(f"{text[:200]!r} is no address: {error}") from error
        schemes = ("https", "http") if self.http else ("https",)
        if parts.scheme not in schemes:
            raise Retry(f"{text[:200]!r} must begin with {' or '.join(f'{s}://' for s in schemes)}")
        if parts.username is not None or parts.password is not None:
            raise Retry("an address with a user name or password is not fetched")
        if not host or not self._listed(host, port, parts.scheme):
            raise Retry(
                f"the host {host or text[:80]!r} is not allowed. Allowed: {', '.join(self.allow) or 'none'}"
            )
        return _ascii(parts, host, port), host, port

    def _listed(self, host: str, port: int, scheme: str) -> bool:
        for entry in self.allow:
            name, _, wanted = entry.partition(":")
            if port != (int(wanted) if wanted else _PORTS[scheme]):
                continue
            if name == "*" or host == name or (name.startswith("*.") and host.endswith(name[1:])):
                return True
        return False

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where the host is. Raises ToolFailed when any of it is no place to go."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ToolFailed(f"the host {host!r} is not known: {error.strerror}") from error
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        for address in addresses:
            if not self.private and not is_public(address):
                raise ToolFailed(f"{host!r} leads to {address}, which is not a public address")
        return addresses


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, the addresses inside an IPv6 one included."""
    ip = ipaddress.ip_address(address.split("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner: Iterable[Any] = (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ()))
        if ip in _NAT64:
            inner = (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF),)
        if any(one is not None and not is_public(str(one)) for one in inner):
            return False
        if ip.ipv4_mapped is not None or ip in _NAT64:
            return True  # as public as what is inside
    return ip.is_global and not ip.is_multicast


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class _Page:
    url: str
    status: int
    kind: str
    body: bytes
    cut: bool

    def text(self) -> str:
        if (
            self.body
            and not self.kind.startswith(_TEXTS)
            and not self.kind.split(";")[0].endswith(("+json", "+xml"))
        ):
            raise ToolFailed(f"{self.url} is {self.kind or 'of no type'}, not text")
        charset = re.search(r"charset=[\"']?([\w-]+)", self.kind)
        try:
            return self.body.decode(charset[1] if charset else "utf-8", "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")

    def told(self, text: str) -> str:
        """With what is out of the ordinary."""
        head = f"[{self.status} {self.url}]\n" if self.status != 200 else ""
        return (
            head
            + (text.strip() or "[empty]")
            + (f"\n[… cut after {len(self.body)} bytes]" if self.cut else "")
        )


async def _get(gate: Gate, url: str, max_bytes: int, max_redirects: int, user_agent: str) -> _Page:
    import httpcore2

    async with httpcore2.AsyncConnectionPool(network_backend=_backend(gate)) as pool:
        for _ in range(max_redirects + 1):
            url, _host, _port = gate.url(url)
            headers = [
                ("User-Agent", user_agent),
                ("Accept", "text/*, application/json"),
                ("Accept-Encoding", "identity"),
            ]
            try:
                async with pool.stream("GET", url, headers=headers) as response:
                    to = _header(response, b"location")
                    if response.status in (301, 302, 303, 307, 308) and to:
                        url = urljoin(url, to)
                        continue
                    body = bytearray()
                    async for chunk in response.aiter_stream():
                        body += chunk
                        if len(body) > max_bytes:
                            break
                    kind = _header(response, b"content-type").lower()
                    return _Page(url, response.status, kind, bytes(body[:max_bytes]), len(body) > max_bytes)
            except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
                raise ToolFailed(f"{url}: {str(error) or type(error).__name__}") from error
    raise ToolFailed(f"{url}: more than {max_redirects} redirects")


def _header(response: httpcore2.Response, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), "")


def _ascii(parts: SplitResult, host: str, port: int) -> str:
    """The address with nothing but printable ASCII, and without its fragment."""
    from urllib.parse import quote

    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port}{path}" + (f"?{query}" if query else "")


def _backend(gate: Gate) -> httpcore2.AsyncNetworkBackend:
    """Connections to checked addresses only."""
    import httpcore2

    class Backend(httpcore2.AsyncNetworkBackend):
        def __init__(self) -> None:
            self._open = httpcore2.AnyIOBackend()

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109 - the backend's own
            local_address: str | None = None,
            socket_options: Any = None,
        ) -> httpcore2.AsyncNetworkStream:
            failed: Exception = ToolFailed(f"{host!r} has no address")
            for address in await gate.addresses(host, port):
                try:
                    return await self._open.connect_tcp(address, port, timeout, local_address, socket_options)
                except httpcore2.NetworkError as error:
                    failed = error
            raise failed

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    return Backend()
