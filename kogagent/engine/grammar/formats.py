"""The formats of JSON Schema as regular expressions. Knows no automaton.

Those of JSON Schema, of OpenAPI's registry, and of the identifiers that zod knows. Each is the grammar of its
RFC as far as a finite automaton goes; none accepts what the RFC rejects. Of an international one it is the
ASCII part.
"""

from __future__ import annotations

_YEAR = r"\d{4}"
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)
_LOCAL_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,18})?"
_TIME = rf"{_LOCAL_TIME}(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
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
_URI = rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{_AUTHORITY}{_SEGMENTS}|/(?:{_PCHAR}+{_SEGMENTS})?|{_PCHAR}+{_SEGMENTS}|){_REST}"
_NO_COLON = r"(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})"
_RELATIVE = rf"(?://{_AUTHORITY}{_SEGMENTS}|/(?:{_PCHAR}+{_SEGMENTS})?|{_NO_COLON}+{_SEGMENTS}|){_REST}"
_NAME = r"(?:\w|%[0-9A-Fa-f]{2})+"
_VARIABLE = rf"{_NAME}(?:\.{_NAME})*(?:\*|:[1-9]\d{{0,3}})?"
_LITERAL = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#\[\]-]|%[0-9A-Fa-f]{2})"
_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_DATE_PART = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
_TIME_PART = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"

FORMATS: dict[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "time-local": _LOCAL_TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "date-time-local": rf"{_DATE}T{_LOCAL_TIME}",
    "duration": rf"P(?:{_DATE_PART}(?:{_TIME_PART})?|{_TIME_PART}|\d+W)",
    **dict.fromkeys(("email", "idn-email"), rf"{_ATEXT}(?:\.{_ATEXT})*@(?:{_LABEL}\.)+[A-Za-z]{{2,63}}"),
    **dict.fromkeys(("hostname", "idn-hostname"), rf"{_LABEL}(?:\.{_LABEL})*"),
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "cidrv4": rf"{_IPV4}/(?:3[0-2]|[12]?\d)",
    "cidrv6": rf"(?:{_IPV6})/(?:12[0-8]|1[01]\d|[1-9]?\d)",
    **dict.fromkeys(("uri", "url", "iri"), _URI),
    **dict.fromkeys(("uri-reference", "iri-reference"), rf"(?:{_URI}|{_RELATIVE})"),
    "uri-template": _TEMPLATE,
    "http-url": rf"https?://{_USER}{_HOST}(?::{_PORT})?{_SEGMENTS}{_REST}",
    **dict.fromkeys(("uuid", "guid"), r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:#|{_POINTER})",
    **dict.fromkeys(("base64", "byte"), _BASE64),
    "base64url": r"(?:[\w-]{4})*(?:[\w-]{2}(?:==)?|[\w-]{3}=?)?",
    "decimal": r"-?\d+(?:\.\d+)?",
    "jwt": r"[\w-]+\.[\w-]+\.[\w-]*",
    "e164": r"\+[1-9]\d{6,14}",
    "cuid": r"[cC][0-9a-z]{8,}",
    "cuid2": r"[0-9a-z]+",
    "ulid": r"[0-7][0-9A-HJKMNP-TV-Z]{25}",
    "nanoid": r"[\w-]{21}",
    "xid": r"[0-9a-v]{20}",
    "ksuid": r"[0-9A-Za-z]{27}",
}
"""format: regular expression of the whole string."""

HINTS = frozenset(
    {
        *("path", "file-path", "directory-path", "password", "binary"),
        *("markdown", "commonmark", "html", "multi-line", "multiline", "textarea", "enum"),
    }
)
"""Formats that say what a string is for and nothing of how it is written: any string fits."""

LONGEST: dict[str, int] = {"hostname": 253, "idn-hostname": 253, "email": 254, "idn-email": 254}
"""Code points a format allows at most, beyond what its expression says."""

NUMBER_FORMATS: dict[str, tuple[int, int] | None] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "int": (-(2**63), 2**63 - 1),
    "uint": (0, 2**64 - 1),
    "float": None,
    "double": None,
}
"""Number formats of OpenAPI and of Rust's schemars: the bounds they set, None for those that set none."""
