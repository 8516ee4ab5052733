"""Texts of others, such as titles of studies and responses of servers, as they may be shown."""

from __future__ import annotations

import unicodedata
from typing import Any, TypeVar

import msgspec

UNSHOWN = ("content", "fields", "histogram")
"""Fields of records that are no text to show: what is sent, and numbers."""

Value = TypeVar("Value")


def visible(text: str) -> str:
    r"""Return a text with escapes instead of characters that change how others are shown: \x1b.

    These are control characters, which a terminal obeys, and those of formats, such as U+202E,
    which reverses what follows. No XML can have the former.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else _escape(each) for each in text)


def _is_shown(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def shown(value: Value) -> Value:
    """Return a record with all of its texts visible."""
    return _shown(value)  # type: ignore[no-any-return]


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, msgspec.Struct):
        names = (each for each in value.__struct_fields__ if each not in UNSHOWN)
        found = {name: _shown(getattr(value, name)) for name in names}
        return msgspec.structs.replace(value, **found)
    if isinstance(value, dict):
        return {_shown(name): _shown(each) for name, each in value.items()}
    return type(value)(map(_shown, value)) if isinstance(value, (list, tuple)) else value
