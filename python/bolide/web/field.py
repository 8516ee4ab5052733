"""Field lines of a response: what an application may write, and the content type of text.

The core validates and encodes them.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bolide._core import field_line
from bolide.web.multidict import MultiDict

__all__ = [
    "FieldLines",
    "charset_of",
    "content_type_line",
    "header_pairs",
    "text_type_line",
]

FieldLines = Mapping[str, str] | Iterable[tuple[str, str]]

_CHARSET = re.compile(r';[ \t]*charset="?([^\s;"]+)', re.IGNORECASE)  # RFC 9110 §8.3.2


def header_pairs(headers: FieldLines) -> dict[str, str] | Iterable[tuple[str, str]]:
    """Return `headers` as the core accepts them: a dict, or pairs."""
    if type(headers) is dict:  # before the slower check for any mapping
        return headers
    if isinstance(headers, MultiDict):
        return headers.multi_items()
    return headers.items() if isinstance(headers, Mapping) else headers


def charset_of(content_type: str) -> str | None:
    """Return the charset parameter of a content type, None if it has none."""
    found = _CHARSET.search(content_type)
    return found[1] if found else None


@lru_cache(maxsize=256)
def content_type_line(content_type: str) -> bytes:
    """Encode the content-type line of bytes.

    Raises:
        TypeError, ValueError: as `_core.field_line`.
    """
    return field_line("Content-Type", content_type)


@lru_cache(maxsize=256)
def text_type_line(content_type: str) -> bytes:
    """Encode the content-type line of text, which is sent as UTF-8.

    A `text/*` type without a charset gets charset=utf-8.

    Raises:
        TypeError: as `field_line`.
        ValueError: as `field_line`, or the type names another charset.
    """
    line = field_line("Content-Type", content_type)
    content_type = content_type.strip(" \t")
    charset = charset_of(content_type)
    if charset is None and content_type.lower().startswith("text/"):
        return field_line("Content-Type", f"{content_type}; charset=utf-8")
    if charset is not None and charset.lower() not in ("utf-8", "utf8"):
        raise ValueError(f"text is sent as UTF-8, not as {charset}: encode it and pass it as body")
    return line
