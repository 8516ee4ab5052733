"""Configures logging: one handler on standard error for the logger `bolide` and those below it.

If the application, or the file of `log_config`, has added handlers to `bolide` or the root logger
before, only those are used.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.server.process.log_config import LogConfig

FORM = "%(asctime)s [%(process)d] %(short_level)s %(name)s: %(message)s"
SHORT_LEVELS = {"WARNING": "WARN ", "CRITICAL": "CRIT "}
COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}

logger = logging.getLogger("bolide")
"""The server's own messages."""

_own: logging.Handler | None = None
"""The handler that `configure` added."""
_applied: LogConfig | None = None
"""What the file said that was used last."""


class Formatter(logging.Formatter):
    """Writes `2026-11-21 12:00:00 [pid] INFO  bolide: message`; with colour on a terminal."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__(FORM, "%Y-%m-%d %H:%M:%S")
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        level = SHORT_LEVELS.get(record.levelname, f"{record.levelname:5}")
        colour = COLOURS.get(record.levelname) if self._colours else None
        record.short_level = f"\x1b[{colour}m{level}\x1b[0m" if colour else level
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """Writes one JSON object per line, in ASCII, whatever a message contains."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record; a traceback is text with ends of lines, which JSON escapes."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if (request_id := getattr(record, "request_id", None)) is not None:
            line["request_id"] = str(request_id)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line)


def write_details(details: str) -> None:
    """Write the traceback of the failure that the next message is about; "" is none.

    In text it is on standard error as Python writes it, and a record in every other log.
    """
    is_text = _own is not None and isinstance(_own.formatter, Formatter)
    is_configured = bool(logger.handlers or logging.getLogger().handlers)
    if is_text or not is_configured:
        sys.stderr.write(details)
    elif details and logger.isEnabledFor(logging.ERROR):
        message = "what the application raised follows"
        record = logger.makeRecord(logger.name, logging.ERROR, __file__, 0, message, (), None)
        record.exc_text = details.rstrip()
        logger.handle(record)


def about_request(title: str) -> dict[str, str]:
    """Return the attributes of a record about the request with that name, which ends in its id."""
    request_id = title.partition(" [")[2].removesuffix("]")
    return {"request_id": request_id} if request_id else {}


def configure(
    level: str, form: str = "text", config: str = "", *, opens_files: bool = True
) -> None:
    """Write messages of `level` and above to standard error, or as the file `config` says.

    It may be called again. Levels that the file sets precede `level`. Unless it `opens_files`, what
    would be written to files is dropped.

    Raises:
        ConfigError: the file cannot be used; then messages are written as before.
    """
    global _own, _applied
    configured = _read(config, opens_files=opens_files) if config else None
    keep_enabled()
    level_before = logger.level
    logger.setLevel(level.upper())
    if configured is not None:
        try:
            configured.apply()
        except ConfigError:
            _restore(level_before)
            raise
        finally:
            keep_enabled()
    _applied = configured
    if _own is not None:
        logger.removeHandler(_own)
        logger.propagate, _own = True, None
    if logger.handlers or logging.getLogger().handlers:
        return
    _own = logging.StreamHandler(sys.stderr)
    _own.setFormatter(JsonFormatter() if form == "json" else Formatter(colours=sys.stderr.isatty()))
    logger.addHandler(_own)
    logger.propagate = False


def _restore(level: int) -> None:
    """Write messages as before, after a file that cannot be used has removed handlers."""
    if _applied is not None:
        with suppress(ConfigError):
            _applied.apply()
    if _own is not None and _own not in logger.handlers:
        logger.addHandler(_own)
        logger.propagate = False
    logger.setLevel(level)


def _read(config: str, *, opens_files: bool) -> LogConfig:
    # Here, because every worker holds what it imports: a megabyte.
    from bolide.server.process import log_config

    if not opens_files:
        log_config.open_no_files()
    return log_config.read(config)


def keep_enabled() -> None:
    """Enable the loggers again after code of the application has run.

    Unless it is asked not to, `logging.config` disables every logger that it does not name, and
    then nobody would know why requests get 500. A level or handlers of the application's apply.
    """
    for name in ("bolide", "bolide.error"):
        logging.getLogger(name).disabled = False
