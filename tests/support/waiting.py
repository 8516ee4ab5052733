"""Waits for what can only be asked for again and again."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

PATIENCE_S = 10
"""How long the tests wait for what must happen."""


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)
