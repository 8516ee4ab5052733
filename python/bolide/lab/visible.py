"""Records with texts of others, such as titles of studies and responses of servers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from bolide.visible import visible

__all__ = ["shown", "visible"]
UNSHOWN = ("content", "fields", "histogram")
"""Fields of records that are no text to show: what is sent, and numbers."""

Value = TypeVar("Value")


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
