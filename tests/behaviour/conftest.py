"""Fixtures: an application that keeps its thread until the test lets it go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

WAYS = ("blocks", "computes")
LetGo = Callable[[], None]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Say how the application keeps its thread."""
    name: str = request.param
    return name


@pytest.fixture
def path(way: str, tmp_path: Path) -> Path:
    """Name what the application waits for."""
    path = tmp_path / "go"
    if way == "blocks":
        os.mkfifo(path)
    return path


@pytest.fixture
def let_go(way: str, path: Path) -> LetGo:
    """Return a function that lets the application go on."""
    return (lambda: _ignore(path.write_bytes(b"x"))) if way == "blocks" else path.touch


def _ignore(_: int) -> None:
    pass
