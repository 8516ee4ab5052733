"""What the compiler learns from can be served and loaded: every lesson, with fewer requests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_lesson_is_served_without_an_error() -> None:
    """It exits with 1 if any response is not a success, and logs every exception."""
    command = [sys.executable, "-W", "error", str(ROOT / "release/training.py"), "--short"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    logged = [line for line in ran.stderr.splitlines() if "is self-signed" not in line]
    assert (ran.returncode, logged) == (0, [])
