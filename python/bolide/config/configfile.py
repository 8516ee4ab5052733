"""Finds and reads the configuration file: `bolide.toml`, or `[tool.bolide]` in `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bolide.errors import ConfigError

OWN_FILE = "bolide.toml"
PROJECT_FILE = "pyproject.toml"


def read(named: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return where the options were found, and the options; both are empty without a file.

    `named` is the path that the user gave; without it, the current folder is searched.

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    for path in (Path(named),) if named else (Path(OWN_FILE), Path(PROJECT_FILE)):
        if named or path.exists():
            return _section(path)
    return "", {}


def _section(path: Path) -> tuple[str, Mapping[str, Any]]:
    import tomllib

    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    if path.name != PROJECT_FILE:
        return str(path), document
    section = document.get("tool", {}).get("bolide", {})
    return f"[tool.bolide] of {path}", section
