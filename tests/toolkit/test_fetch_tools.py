"""Pages from hosts on a list: every way around the list, the address check and the limits is shut."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from toolkit_calls import Asked

from kogagent import InputError, Retry
from kogagent.toolkit import fetch_tools
from kogagent.toolkit.fetch import Gate, is_public
from kogagent.toolkit.fetch import _Page as Page
from kogagent.toolkit.pages import plain_text

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
HOUR = 3600.0  # what is not about the time has all it may need


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[tuple[int, list[str]]]:
    """(port of a server on the loopback, the paths it was asked for)."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split()[1])
        try:
            await answer(head.split()[1], writer)
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], asked


def page(body: str, kind: str = "text/plain", status: str = "200 OK", more: str = "") -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + data


async def says(path: str, writer: asyncio.StreamWriter) -> None:
    pages = {
        "/": page("hello é", "text/plain; charset=utf-8"),
        "/html": page(
            "<title>t</title><h1>Head</h1><p>one <a href='/two'>two</a><script>x()</script>", "text/html"
        ),
        "/json": page('{"a": 1}', "application/json"),
        "/image": page("\x89PNG", "image/png"),
        "/gone": page("not here", status="404 Not Found"),
        "/latin": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=latin-1\r\n\r\ncaf\xe9",
        "/there": page("", status="302 Found", more="Location: /\r\n"),
        "/round": page("", status="302 Found", more="Location: /round\r\n"),
        "/away": page("", status="302 Found", more="Location: http://evil.example/\r\n"),
        "/file": page("", status="302 Found", more="Location: file:///etc/passwd\r\n"),
    }
    writer.write(pages[path.split("?")[0]])


async def test_a_page_is_told_as_text() -> None:
    async with server(says) as (port, asked):
        at = f"http://localhost:{port}"
        ask = Asked(fetch_tools([f"localhost:{port}"], http=True, private=True, seconds=HOUR))
        assert await ask("fetch", url=f"{at}/") == "hello é"
        assert await ask("fetch", url=f"{at}/html") == f"# Head\n\none [two]({at}/two)"
        assert "<script>" in await ask("fetch", url=f"{at}/html", raw=True)
        assert await ask("fetch", url=f"{at}/json?q=é x#part") == '{"a": 1}'
        assert asked[-1] == "/json?q=%C3%A9%20x"
        assert await ask("fetch", url=f"{at}/latin") == "café"
        assert await ask("fetch", url=f"{at}/gone") == f"[404 {at}/gone]\nnot here"
        assert await ask("fetch", url=f"{at}/there") == "hello é"
        assert "not text" in await ask.refused("fetch", url=f"{at}/image")
        assert "more than 5 redirects" in await ask.refused("fetch", url=f"{at}/round")
        assert "'evil.example' is not allowed" in await ask.refused("fetch", url=f"{at}/away")
        assert "must begin with" in await ask.refused("fetch", url=f"{at}/file")


async def test_an_address_that_is_not_public_is_refused_by_default() -> None:
    async with server(says) as (port, asked):
        for host in ("localhost", "127.0.0.1", "127.1", "2130706433"):
            ask = Asked(fetch_tools([f"{host}:{port}"], http=True))
            assert "not a public address" in await ask.refused("fetch", url=f"http://{host}:{port}/")
        assert not asked


async def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to a public address when it is checked and to the loopback a moment later."""
    lookups: list[str] = []
    async with server(says) as (port, asked):

        async def rebinding(self: Any, host: str, port: int, **_: Any) -> list[Any]:
            lookups.append(host)
            address = "192.0.2.1" if len(lookups) > 1 else "8.8.8.8"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        connected: list[str] = []

        async def connect(self: Any, host: str, *_: Any, **__: Any) -> None:
            connected.append(host)
            import httpcore2

            raise httpcore2.ConnectError("no way")

        import httpcore2

        monkeypatch.setattr(asyncio.get_running_loop().__class__, "getaddrinfo", rebinding)
        monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
        ask = Asked(fetch_tools([f"name.example:{port}"], http=True))
        assert "no way" in await ask.refused("fetch", url=f"http://name.example:{port}/")
        assert connected == ["8.8.8.8"] and lookups == ["name.example"] and not asked


async def test_one_bad_address_among_good_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in ("8.8.8.8", "169.254.169.254")]

    monkeypatch.setattr(asyncio.get_running_loop().__class__, "getaddrinfo", both)
    ask = Asked(fetch_tools(["*"]))
    assert "169.254.169.254" in await ask.refused("fetch", url="https://metadata.example/")


async def test_size_and_time_are_bounded() -> None:
    gate = asyncio.Event()

    async def endless(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while path == "/flood":
            writer.write(b"x" * 10_000)
            await writer.drain()
        await gate.wait()  # never

    async with server(endless) as (port, _):
        at, allow = f"http://localhost:{port}", [f"localhost:{port}"]
        ask = Asked(fetch_tools(allow, http=True, private=True, seconds=HOUR, max_bytes=50_000))
        told = await ask("fetch", url=f"{at}/flood")
        assert told.endswith("[… cut after 50000 bytes]") and len(told) < 51_000
        hasty = Asked(fetch_tools(allow, http=True, private=True, seconds=0.5))
        assert "no answer within 0.5 s" in await hasty.refused("fetch", url=f"{at}/slow")
        gate.set()


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://example.com/a", True),
        ("https://EXAMPLE.com./a", True),
        ("https://a.python.org", True),
        ("https://a.b.python.org", True),
        ("https://special.example:8443/", True),
        ("https://python.org", False),
        ("https://example.com:8443/", False),
        ("https://special.example/", False),
        ("http://example.com/", False),
        ("https://example.com@evil.example/", False),
        ("https://user:word@example.com/", False),
        ("https://evil.example/example.com", False),
        ("https://example.com.evil.example/", False),
        ("https://evilpython.org/", False),
        ("file:///etc/passwd", False),
        ("ftp://example.com/", False),
        ("https:///x", False),
        ("example.com", False),
        ("https://example.com:99999/", False),
        ("https://exam\u2024ple.com/", False),
        ("https://[::1]/", False),
    ],
)
def test_only_hosts_on_the_list_pass(url: str, fine: bool) -> None:
    gate = Gate(("example.com", "*.python.org", "special.example:8443"), http=False, private=False)
    if fine:
        assert gate.url(url)[1] in ("example.com", "a.python.org", "a.b.python.org", "special.example")
    else:
        with pytest.raises(Retry):
            gate.url(url)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        *((bad, False) for bad in ("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254")),
        *((bad, False) for bad in ("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1")),
        *((bad, False) for bad in ("::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1")),
        *((bad, False) for bad in ("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::")),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_bad_settings_are_refused() -> None:
    for bad in ("https://example.com", "Example.com", "*.", "a b", ""):
        with pytest.raises(InputError, match="allow has"):
            fetch_tools([bad])
    with pytest.raises(InputError, match="list of hosts"):
        fetch_tools("example.com")
    with pytest.raises(InputError, match="seconds=0"):
        fetch_tools(["*"], seconds=0)
    assert "The hosts: none." in fetch_tools([])[0].spec.description


def test_a_page_as_text() -> None:
    html = (
        "<html><head><title>x</title></head><body><h2>A&amp;B</h2><ul><li>one<li>two</ul>"
        "<style>p{}</style><p>a\n  b<br>c</p><a href='javascript:x'>no</a> <a href='../y'>yes</a>"
        "<svg><a>z</svg>"
    )
    assert (
        plain_text(html, "https://e.example/a/b")
        == "## A&B\n\n- one\n- two\n\na b\nc\nno [yes](https://e.example/y)"
    )
    assert plain_text("<pre>a\n b</pre>c\nd") == "a\nb\nc d"
    assert plain_text("</script></style></div>text") == "text"
    assert plain_text("<script>" * 1000 + "x") == ""


async def test_a_page_that_takes_a_parser_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    body = ("<p>" + "<a " * 600_000).encode()  # hours
    rounds = 0

    async def got(gate: Gate, url: str, *limits: object) -> Page:
        counting()  # from when the page is there: it has taken none of the time for its parser
        return Page(url, 200, "text/html", body, cut=False)

    def counting() -> None:
        nonlocal rounds
        rounds += 1
        asyncio.get_running_loop().call_soon(counting)

    monkeypatch.setattr("kogagent.toolkit.fetch._get", got)
    ask = Asked(fetch_tools(["*"], seconds=0.5))
    assert "could not be read within 0.5 s" in await ask.refused("fetch", url="https://example.com/")
    assert rounds > 1, "the loop stood still"
