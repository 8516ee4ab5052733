"""What the tests of `bolide load` may use: a server that counts its responses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.server import Server, Start
from tls.authority import Authority, Files

StartCounting = Callable[..., Server]


@pytest.fixture
def start_counting(start: Start, applications: Path) -> StartCounting:
    """Return a function that starts a server that counts its responses."""

    def start_counting(*options: str) -> Server:
        return start("counting.py", *options, cwd=applications / "load")

    return start_counting


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Return an authority."""
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Files:
    """Issue a certificate for the server's addresses."""
    return authority.issue(tmp_path, "localhost", "127.0.0.1")


@pytest.fixture
def counting(start_counting: StartCounting) -> Server:
    """Return a server that counts its responses."""
    return start_counting()
