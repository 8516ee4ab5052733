"""Field lines of a request, read from `Name: value`."""

from __future__ import annotations

import re

from bolide.errors import ConfigError

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
FRAMING = ("content-length", "transfer-encoding", "connection", "keep-alive")
"""What the generator writes itself, because the framing of responses depends on it."""


def read(text: str, origin: str) -> tuple[str, str]:
    """Split a field line; `origin` names where it stands.

    RFC 9110 sections 5.1 and 5.5.

    Raises:
        ConfigError: it is none, or one that the generator writes itself.
    """
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigError(f"{origin}: {text!r} is no header; give 'Name: value'")
    return checked(name, value, origin)


def checked(name: str, value: str, origin: str) -> tuple[str, str]:
    """Check a field's name and value.

    Raises:
        ConfigError: one has characters that may not be there, or the generator writes the field.
    """
    value = value.strip(" \t")
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise ConfigError(f"{origin}: {f'{name}: {value}'!r} is no header; give 'Name: value'")
    if name.lower() in FRAMING:
        raise ConfigError(
            f"{origin}: {name} is written by the generator itself; "
            "see --body, --no-keep-alive and --http1.0"
        )
    return name, value


def take_host(lines: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], str | None]:
    """Split field lines into all others, and the value of the last Host."""
    hosts = [value for name, value in lines if name.lower() == "host"]
    others = [(name, value) for name, value in lines if name.lower() != "host"]
    return others, hosts[-1] if hosts else None
