"""Reads the file of `log_config`, and configures Python's logging as it says.

The files are those that uvicorn accepts, and TOML: a dictionary for `logging.config.dictConfig`, or
an INI file for `logging.config.fileConfig`.
"""

from __future__ import annotations

import configparser
import errno
import io
import json
import logging.config
import logging.handlers
import os
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bolide.config import bounded
from bolide.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a file says: a dictionary, or the text of an INI file."""

    path: str
    content: dict[str, Any] | str

    def apply(self) -> None:
        """Configure logging.

        Raises:
            ConfigError: it names something that does not exist, or lacks what is required.
        """
        try:
            if isinstance(self.content, str):
                file = io.StringIO(self.content)
                logging.config.fileConfig(file, disable_existing_loggers=False)
            else:
                logging.config.dictConfig(self.content)
        except Exception as error:  # of a handler's or formatter's class, too
            cause = error.__cause__
            why = _why(error) + (f": {_why(cause)}" if cause is not None else "")
            raise ConfigError(f"log_config: {self.path} cannot be used: {why}") from None


def open_no_files() -> None:
    """Let handlers of this process write nothing to their files, which are not opened either."""

    def opened(handler: logging.FileHandler) -> Any:
        if not Path(handler.baseFilename).parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), handler.baseFilename)
        return open(os.devnull, "w", encoding="utf-8")

    replaced: tuple[tuple[type, str, Any], ...] = (
        (logging.FileHandler, "_open", opened),
        # It may rename files.
        (logging.handlers.BaseRotatingHandler, "emit", logging.FileHandler.emit),
    )
    for kind, name, method in replaced:
        setattr(kind, name, method)


def read(path: str) -> LogConfig:
    """Read a file: JSON, TOML or YAML by its suffix, otherwise INI.

    Raises:
        ConfigError: it cannot be read, or it has a mistake.
    """
    suffix = Path(path).suffix.lower()
    if Path(path).is_fifo():  # opening it would wait for a writer
        raise ConfigError(f"log_config: cannot read {path}: it is a FIFO")
    try:
        text = bounded.read(path, bounded.CONFIG_BYTES_MAX).decode()
        content = _parsed(suffix, text)
    except OSError as error:
        raise ConfigError(f"log_config: cannot read {path}: {error.strerror}") from None
    except ImportError:
        remedy = "install PyYAML, or give JSON, TOML or INI"
        raise ConfigError(f"log_config: {path} is YAML, which needs PyYAML; {remedy}") from None
    except Exception as error:  # of any of the parsers
        raise ConfigError(f"log_config: {path} cannot be read: {_why(error)}") from None
    if isinstance(content, dict):
        content = {"version": 1, "disable_existing_loggers": False, **content}
    elif not isinstance(content, str):
        raise ConfigError(f"log_config: {path} contains no table for logging.config.dictConfig")
    return LogConfig(path, content)


def _parsed(suffix: str, text: str) -> Any:
    if suffix == ".json":
        return json.loads(text)
    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        return import_module("yaml").safe_load(text)
    configparser.ConfigParser(None).read_string(text)
    return text


def _why(error: BaseException) -> str:
    """Return what an exception says, in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if isinstance(error, KeyError) else said
