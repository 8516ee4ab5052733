"""A terminal that shows a text again and again, until `q` is pressed."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from types import FrameType, TracebackType
from typing import Any, NoReturn

CLEAR = "\x1b[H\x1b[2J"
"""Starts a terminal's screen again."""
END_KEYS = b"qQ"


class Keys:
    """The keys that are pressed meanwhile; none if standard input is no terminal."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno() if _is_terminal() else None
        self._before: list[Any] = []
        self._handler: Any = None

    def __enter__(self) -> Keys:
        """Have keys without Return, and without showing them. Ctrl-C works as before."""
        if self._fd is not None:
            self._handler = signal.signal(signal.SIGTERM, _exit)
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSANOW)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the terminal."""
        if self._fd is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            signal.signal(signal.SIGTERM, self._handler)

    def ended(self, within_s: float) -> bool:
        """Wait for so long; return True at once if `q` is pressed."""
        due = time.monotonic() + within_s
        while self._fd is not None and (left_s := due - time.monotonic()) > 0:
            readable, _, _ = select.select([self._fd], [], [], left_s)
            pressed = os.read(self._fd, 64) if readable else b""
            if any(key in END_KEYS for key in pressed):
                return True
            if readable and not pressed:  # the terminal is gone
                self._fd = None
        time.sleep(max(0.0, due - time.monotonic()))
        return False


def _exit(number: int, _: FrameType | None) -> NoReturn:
    """End with the exit code of shells, so that the terminal is restored before."""
    sys.exit(128 + number)


def _is_terminal() -> bool:
    """Return whether keys can be read: not in the background, where that would stop the process."""
    try:
        is_ours = os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # closed, or no terminal
        return False
    return is_ours and sys.stdin.isatty() and sys.stdout.isatty()


def fitted(text: str) -> str:
    """Return what starts the screen again and fills it with a text; its last lines are a table.

    Lines are cut off at the right. Rows that have no place are counted.
    """
    size = shutil.get_terminal_size()
    lines = [line[: size.columns] for line in text.splitlines()]
    if len(lines) > (rows := max(2, size.lines - 1)):
        left_out = len(lines) - (rows - 1)
        more = "worker" if left_out == 1 else "workers"
        lines[rows - 1 :] = [f"and {left_out} more {more}"]
    return CLEAR + "\n".join(lines)
