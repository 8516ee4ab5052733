"""Finds and reads the configuration file: `bolide.toml`, or `[tool.bolide]` in `pyproject.toml`."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

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
        if stat.S_ISFIFO(path.stat().st_mode):  # opening it would wait for a writer
            raise ConfigError(f"cannot read the configuration file {path}: it is a FIFO")
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    if path.name != PROJECT_FILE:
        return str(path), document
    section = document.get("tool", {}).get("bolide", {})
    if not isinstance(section, dict):
        raise ConfigError(
            f"tool.bolide in {path} is not a table; write options below [tool.bolide]"
        )
    return f"[tool.bolide] of {path}", section


def refuse_table(name: str, where: str) -> NoReturn:
    """Say where the options of a table belong, which is not one of the options.

    Raises:
        ConfigError: always.
    """
    if where.startswith("[tool.bolide]"):
        raise ConfigError(
            f"[tool.bolide.{name}] of {PROJECT_FILE}: write these options under [tool.bolide]"
        )
    table = "[tool.bolide]" if name == "tool" else f"[{name}]"
    raise ConfigError(
        f"{where} has the table {table}; write its options at the top level, without {table}"
    )
