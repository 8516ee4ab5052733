"""What the tests of faults share: the application, its ledger, how much they do, the record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Comparison, Ledger, compare
from support.server import APPLICATIONS, Server, Start

IS_LONG = os.environ.get("FAULTS") == "long"
IS_FULL = os.environ.get("FAULTS") in ("full", "long")
"""`make faults` does more of the same than `make test`."""


def scaled(full: int, bounded: int) -> int:
    """Return how often something is done."""
    return full if IS_FULL else bounded


class Matrix:
    """A server with the application of the matrix, and both ledgers."""

    def __init__(self, start: Start, folder: Path, record: Callable[[str, object], None]) -> None:
        self.path = folder / "ledger"
        self.ledger = Ledger()
        self._start, self._record = start, record

    def start(self, interface: str = "native", *options: str, **more: Any) -> Server:
        """Start a server; `LEDGER` names the application's ledger."""
        env = {"LEDGER": str(self.path), **more.pop("env", {})}
        cwd = more.pop("cwd", APPLICATIONS / "faults")
        return self._start(f"{interface}.py", *options, env=env, cwd=cwd, **more)

    def compare(self, runs_to_end: bool = True) -> Comparison:
        """Compare the ledgers."""
        return compare(self.ledger, self.path, runs_to_end)

    def record(self, row: int, measured: str, lost: int = 0) -> None:
        """Write a result into the record."""
        self._record("row", row)
        self._record("measured", measured)
        self._record("lost", lost)


@pytest.fixture
def matrix(start: Start, tmp_path: Path, record_property: Callable[[str, object], None]) -> Matrix:
    """Return the application, the ledgers and the record."""
    return Matrix(start, tmp_path, record_property)
