"""The terminal that shows `bolide top`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from bolide.manage.screen import CLEAR, fitted
from support.management import Managed
from support.server import Start, clean_environ


def on_screen(monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
    size = os.terminal_size((columns, lines))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: size)


def test_rows_without_a_place_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    on_screen(monkeypatch, 80, 6)
    text = "total\n\nworker\n1\n2"
    assert fitted(text) == CLEAR + text
    assert fitted(f"{text}\n3") == CLEAR + "total\n\nworker\n1\nand 2 more workers"


def test_long_lines_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    on_screen(monkeypatch, 5, 24)
    assert fitted("worker\n12345") == CLEAR + "worke\n12345"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(None, 0), (signal.SIGTERM, 143)])
def test_q_or_term_ends_it_and_the_terminal_is_as_before(
    start: Start, tmp_path: Path, number: signal.Signals | None, code: int
) -> None:
    managed = Managed(start, "basic.py", address=f"unix:{tmp_path / 'management'}")
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    place = f"unix:{managed.address}"
    program = [sys.executable, "-m", "bolide", "top", "--management", place, "--interval", "200ms"]
    top = subprocess.Popen(
        ["setsid", "--ctty", *program],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=clean_environ() | {"COLUMNS": "80", "LINES": "24"},
    )
    try:
        shown = b""
        while b"worker" not in shown:
            shown += os.read(ours, 4096)
        assert termios.tcgetattr(theirs) != before
        if number is None:
            os.write(ours, b"xq")
        else:
            top.send_signal(number)
        assert top.wait(20) == code
        assert termios.tcgetattr(theirs) == before
    finally:
        top.kill()
        top.wait()
        os.close(ours)
        os.close(theirs)
