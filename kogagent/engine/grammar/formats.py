"""The formats of JSON Schema as regular expressions. Knows no automaton.

Each is the grammar of its RFC as far as a finite automaton goes; none accepts what the RFC rejects.
"""

from __future__ import annotations

_YEAR = r"\d{4}"
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,18})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = r"[0-9A-Fa-f]{1,4}"
_LS32 = rf"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = "|".join(
    [
        rf"(?:{_H16}:){{6}}{_LS32}",
        rf"::(?:{_H16}:){{0,5}}{_LS32}",
        rf"{_H16}::(?:{_H16}:){{0,4}}{_LS32}",
        rf"(?:{_H16}:){{1}}{_H16}::(?:{_H16}:){{0,3}}{_LS32}",
        rf"(?:{_H16}:){{2}}{_H16}::(?:{_H16}:){{0,2}}{_LS32}",
        rf"(?:{_H16}:){{3}}{_H16}::(?:{_H16}:)?{_LS32}",
        rf"(?:{_H16}:){{4}}{_H16}::{_LS32}",
        rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
        rf"(?:(?:{_H16}:){{0,6}}{_H16})?::",
    ]
)
# No "--" in places 3 and 4: such labels are punycode, which no automaton can check.
_LABEL = (
    r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]?[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]"
    r"(?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])(?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])|[A-Za-z0-9][A-Za-z0-9-]"
    r"(?:[A-Za-z0-9]|-)[A-Za-z0-9])"
)
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_PCHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_SEGMENTS = rf"(?:/{_PCHAR}*)*"
_REST = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_USER = r"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?"
_AUTHORITY = rf"{_USER}(?:\[(?:{_IPV6})\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{{2}})*)(?::\d*)?"
# What every URL parser takes at the host's place: names in ASCII, whose last label begins with a letter (else
# it is read as an IPv4 address), and addresses.
_HOST = rf"(?:(?:{_LABEL}\.)*[A-Za-z](?:-?[A-Za-z0-9])*|{_IPV4}|\[(?:{_IPV6})\])"
_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|\d{1,4})"
_DATE_PART = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
_TIME_PART = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"

FORMATS: dict[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "duration": rf"P(?:{_DATE_PART}(?:{_TIME_PART})?|{_TIME_PART}|\d+W)",
    "email": rf"{_ATEXT}(?:\.{_ATEXT})*@{_LABEL}(?:\.{_LABEL})*",
    "hostname": rf"{_LABEL}(?:\.{_LABEL})*",
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uri": rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{_AUTHORITY}{_SEGMENTS}|/(?:{_PCHAR}+{_SEGMENTS})?|{_PCHAR}+{_SEGMENTS}|)"
    rf"{_REST}",
    "http-url": rf"https?://{_USER}{_HOST}(?::{_PORT})?{_SEGMENTS}{_REST}",
    "uuid": r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
    "json-pointer": r"(?:/(?:[^~/]|~[01])*)*",
    "byte": r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
}
"""format: regular expression of the whole string."""

HINTS = frozenset({"path", "file-path", "directory-path", "password", "binary"})
"""Formats that say what a string is for and nothing of how it is written: any string fits."""

LONGEST: dict[str, int] = {"hostname": 253, "email": 254}
"""Code points a format allows at most, beyond what its expression says."""

NUMBER_FORMATS: dict[str, tuple[int, int] | None] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "float": None,
    "double": None,
}
"""OpenAPI's number formats: the bounds they set, None for those that set none."""
