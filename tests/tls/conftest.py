"""What the tests of TLS share: an authority, a certificate for localhost, and a client."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from support.server import APPLICATIONS
from tls.authority import Authority, Files

SEEN = APPLICATIONS / "tls"
"""The folder of the applications that say what they see of a session."""


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Return an authority."""
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Files:
    """Issue a certificate for localhost."""
    return authority.issue(tmp_path, "localhost", "127.0.0.1")


@pytest.fixture
def client(authority: Authority) -> ssl.SSLContext:
    """Return a client without a certificate."""
    return authority.client()
