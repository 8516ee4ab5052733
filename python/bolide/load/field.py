"""Field lines of a request, parsed from `Name: value`."""

from __future__ import annotations

import re

from bolide.errors import ConfigError

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
FRAMING = ("content-length", "transfer-encoding", "connection", "keep-alive")
"""Fields that the generator writes itself, because the framing of responses depends on them."""


def read(text: str, origin: str) -> tuple[str, str]:
    """Split a field line; `origin` names its source in error messages.

    RFC 9110 sections 5.1 and 5.5.

    Raises:
        ConfigError: it is malformed, or the generator writes the field itself.
    """
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigError(f"{origin}: {text!r} is not a header; give 'Name: value'")
    return checked(name, value, origin)


def checked(name: str, value: str, origin: str) -> tuple[str, str]:
    """Check a field's name and value.

    Raises:
        ConfigError: one contains an invalid character, or the generator writes the field itself.
    """
    value = value.strip(" \t")
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise ConfigError(f"{origin}: {f'{name}: {value}'!r} is not a header; give 'Name: value'")
    if name.lower() in FRAMING:
        raise ConfigError(
            f"{origin}: the generator writes {name} itself; "
            "see --body, --no-keep-alive and --http1.0"
        )
    return name, value


def take_host(lines: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], str | None]:
    """Split field lines into those other than Host, and the value of the last Host."""
    hosts = [value for name, value in lines if name.lower() == "host"]
    others = [(name, value) for name, value in lines if name.lower() != "host"]
    return others, hosts[-1] if hosts else None
