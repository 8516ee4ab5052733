"""Configures logging: one handler on standard error for the logger `bolide` and those below it.

If the application has added handlers to `bolide` or the root logger before, only those are used.
"""

from __future__ import annotations

import logging
import sys

FORM = "%(asctime)s [%(process)d] %(short_level)s %(name)s: %(message)s"
SHORT_LEVELS = {"WARNING": "WARN ", "CRITICAL": "CRIT "}
COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}

logger = logging.getLogger("bolide")
"""The server's own messages."""


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


def configure(level: str) -> None:
    """Write messages of `level` and above to standard error."""
    keep_enabled()
    logger.setLevel(level.upper())
    if logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(colours=sys.stderr.isatty()))
    logger.addHandler(handler)
    logger.propagate = False


def keep_enabled() -> None:
    """Enable the loggers again after code of the application has run.

    Unless it is asked not to, `logging.config` disables every logger that it does not name, and
    then nobody would know why requests get 500. A level or handlers of the application's apply.
    """
    for name in ("bolide", "bolide.error"):
        logging.getLogger(name).disabled = False
