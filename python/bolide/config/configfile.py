"""Finds and reads the configuration file: `bolide.toml`, or `[tool.bolide]` in `pyproject.toml`."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from bolide.config import bounded
from bolide.errors import ConfigError

OWN_FILE = "bolide.toml"
PROJECT_FILE = "pyproject.toml"
KEY = re.compile(r"""\s*([\w-]+|"[^"\\]*"|'[^']*')[ \t]*=""")
KEY_MAX = 80
"""Characters of a key in an error message."""
PYTHON = (
    'this is Python; bolide.toml is TOML: see "Coming from another server" of the documentation'
)


def read(named: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return where the options were found, and the options; both are empty without a file.

    `named` is the path that the user gave; without it, the current folder is searched.

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    for path in (Path(named),) if named else (Path(OWN_FILE), Path(PROJECT_FILE)):
        if named or path.exists() or (path.is_symlink() and path.name == OWN_FILE):
            return _section(path)
    return "", {}


def _section(path: Path) -> tuple[str, Mapping[str, Any]]:
    document = _document(path)
    if path.name != PROJECT_FILE:
        return str(path), document
    tools = document.get("tool", {})
    section = tools.get("bolide", {}) if isinstance(tools, dict) else None
    if not isinstance(section, dict):
        name = "tool.bolide" if isinstance(tools, dict) else "tool"
        remedy = "write options below [tool.bolide]"
        raise ConfigError(f"{name} in {path} is not a table; {remedy}")
    return f"[tool.bolide] of {path}", section


def _document(path: Path) -> Mapping[str, Any]:
    import tomllib

    if path.suffix == ".py":  # gunicorn.conf.py, of which simple ones are TOML too
        raise ConfigError(f"cannot read the configuration file {path}: {PYTHON}")
    text = ""
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # opening it would wait for a writer
            raise ConfigError(f"cannot read the configuration file {path}: it is a FIFO")
        text = bounded.read(path, bounded.CONFIG_BYTES_MAX).decode()
        return tomllib.loads(text)
    except OSError as error:
        is_dangling = isinstance(error, FileNotFoundError) and path.is_symlink()
        why = f"it is a link to {path.readlink()}, which is missing" if is_dangling else ""
        reason = why or error.strerror
        raise ConfigError(f"cannot read the configuration file {path}: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}{_key_of(error, text)}") from None
    except ValueError:  # of int(): it limits the digits
        raise ConfigError(f"{path} has a number with too many digits; shorten it") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply; write options at the top level") from None


def _key_of(error: ValueError, text: str) -> str:
    """Name the key that an error is about, if it is written twice; otherwise return ""."""
    place = re.search(r"Cannot overwrite a value \(at (?:line (\d+)|end)", str(error))
    if place is None:
        return ""
    lines = text.split("\n")
    *before, line = lines[: int(place[1] or len(lines))]
    if not (key := _assigned(line)):  # such as the end of a value of several lines
        return ""
    table = takewhile(lambda each: not each.lstrip().startswith("["), reversed(before))
    return f": {key[:KEY_MAX]} is there twice" if key in map(_assigned, table) else ""


def _assigned(line: str) -> str:
    """Return the key to which a line assigns a value; "" if it begins otherwise."""
    found = KEY.match(line)
    return found[1] if found is not None and found[1].isprintable() else ""


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
