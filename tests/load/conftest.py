"""What the tests of `bolide load` may use: a server that counts its answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.server import Server, Start

StartCounting = Callable[..., Server]


@pytest.fixture
def start_counting(start: Start, applications: Path) -> StartCounting:
    """Give a function that starts a server that counts its answers."""

    def start_counting(*options: str) -> Server:
        return start("counting.py", *options, cwd=applications / "load")

    return start_counting


@pytest.fixture
def counting(start_counting: StartCounting) -> Server:
    """Give a server that counts its answers."""
    return start_counting()
