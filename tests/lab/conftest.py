"""Fixtures for the tests of the laboratory."""

from __future__ import annotations

import pytest

from lab.tiny_race import Silent


@pytest.fixture
def silent() -> Silent:
    """Return a display of a race that only records what it is given."""
    return Silent()
