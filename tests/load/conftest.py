"""What the tests of `bolide load` may use: a server that counts its responses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.server import Server, Start

StartCounting = Callable[..., Server]


@pytest.fixture
def start_counting(start: Start, applications: Path) -> StartCounting:
    """Return a function that starts a server that counts its responses."""

    def start_counting(*options: str) -> Server:
        return start("counting.py", *options, cwd=applications / "load")

    return start_counting


@pytest.fixture
def counting(start_counting: StartCounting) -> Server:
    """Return a server that counts its responses."""
    return start_counting()
