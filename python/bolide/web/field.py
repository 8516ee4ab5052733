"""Field lines of a response: validated, and encoded as they go on the wire.

An application's text never reaches the header section unchecked: what could end a line or a section
is refused here, which is the whole defence against response splitting. What frames the message
belongs to the server and is refused too.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bolide.web.multidict import MultiDict

__all__ = [
    "FieldLines",
    "charset_of",
    "content_type_line",
    "field_line",
    "field_lines",
    "text_type_line",
]

FieldLines = Mapping[str, str] | Iterable[tuple[str, str]]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 §5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110 §5.5, obs-text included
_CHARSET = re.compile(r';[ \t]*charset="?([^\s;"]+)', re.IGNORECASE)  # RFC 9110 §8.3.2

_FRAMING = "the server frames the message itself; leave this field line out"
_CONNECTION = "the server keeps or closes the connection itself; leave this field line out"
_REFUSED = {
    "content-length": _FRAMING,
    "transfer-encoding": _FRAMING,
    "connection": _CONNECTION,
    "keep-alive": _CONNECTION,
    "proxy-connection": _CONNECTION,
    "upgrade": _CONNECTION,
}


@lru_cache(maxsize=512)
def _name_bytes(name: str) -> bytes:
    """Encode a field name with its colon.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name is no token, or the field belongs to the server.
    """
    if not isinstance(name, str):
        raise TypeError(f"a field name is a str, not {type(name).__name__}: {name!r}")
    if not _TOKEN.fullmatch(name):
        raise ValueError(
            f"{name!r} is no field name: it takes letters, digits and !#$%&'*+-.^_`|~ only"
        )
    if (reason := _REFUSED.get(name.lower())) is not None:
        raise ValueError(f"a response cannot set {name}: {reason}")
    return f"{name}: ".encode("ascii")


def field_line(name: str, value: str) -> bytes:
    """Encode one field line with its line end, in latin-1.

    Whitespace around the value is no part of it and dropped.
    RFC 9110 §5.1, §5.5.

    Raises:
        TypeError: name or value is not a str.
        ValueError: the name is no token, the field belongs to the server, or the value has a
            control character or one beyond latin-1.
    """
    if not isinstance(value, str):
        raise TypeError(
            f"the value of {name} is a str, not {type(value).__name__}: pass str({value!r})"
        )
    if not (value.isascii() and value.isprintable()) and not _VALUE.fullmatch(value):
        raise ValueError(
            f"the value of {name} has a control character, or one beyond latin-1: "
            f"percent-encode it ({value!r})"
        )
    return b"%b%b\r\n" % (_name_bytes(name), value.strip(" \t").encode("latin-1"))


def field_lines(headers: FieldLines, type_line: bytes, *, is_type_explicit: bool) -> bytes:
    """Encode a response's field lines behind its content-type line.

    `type_line` is the encoded content-type line (b"" for none), used unless `headers` has its own.

    Raises:
        TypeError: as `field_line` does, or headers are not pairs of str.
        ValueError: as `field_line` does, or the content type was given twice.
    """
    lines = []
    for name, value in _pairs(headers):
        line = field_line(name, value)
        if name.lower() == "content-type":
            if is_type_explicit:
                raise ValueError("the content type is given twice: leave out one")
            is_type_explicit, type_line = True, line
        else:
            lines.append(line)
    return type_line + b"".join(lines)


def _pairs(headers: FieldLines) -> Iterable[tuple[str, str]]:
    if type(headers) is dict:  # before the slower question for any mapping
        return headers.items()
    if isinstance(headers, MultiDict):
        return headers.multi_items()
    return headers.items() if isinstance(headers, Mapping) else headers


def charset_of(content_type: str) -> str | None:
    """Give the charset parameter of a content type, None when it has none."""
    found = _CHARSET.search(content_type)
    return found[1] if found else None


@lru_cache(maxsize=256)
def content_type_line(content_type: str) -> bytes:
    """Encode the content-type line of bytes.

    Raises:
        TypeError, ValueError: as `field_line` does.
    """
    return field_line("Content-Type", content_type)


@lru_cache(maxsize=256)
def text_type_line(content_type: str) -> bytes:
    """Encode the content-type line of text, which leaves as UTF-8.

    A `text/*` type without a charset is given that one.

    Raises:
        TypeError: as `field_line` does.
        ValueError: as `field_line` does, or the type names another charset.
    """
    line = field_line("Content-Type", content_type)
    charset = charset_of(content_type)
    if charset is None and content_type.lower().startswith("text/"):
        return field_line("Content-Type", f"{content_type}; charset=utf-8")
    if charset is not None and charset.lower() not in ("utf-8", "utf8"):
        raise ValueError(f"text is sent as UTF-8, not as {charset}: encode it and pass it as body")
    return line
