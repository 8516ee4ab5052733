"""Fixtures for the tests of native handlers."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["app", "asgi"])
def interface(request: pytest.FixtureRequest) -> str:
    """Name the interface, which is the name of the application too."""
    name: str = request.param
    return name
