"""Texts of others, such as names of files and responses of servers, as they may be shown."""

from __future__ import annotations

import unicodedata


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
