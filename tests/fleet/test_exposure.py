"""Where an agent without a secret may listen."""

from __future__ import annotations

import pytest

from bolide.errors import ConfigError
from bolide.fleet.exposure import host_of, is_loopback, refuse_exposed, refuse_exposed_scheduler


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("192.0.2.1", False),
        ("nowhere.invalid", False),
    ],
)
def test_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_host_of_an_address() -> None:
    assert host_of("tcp://127.0.0.1:8786") == "127.0.0.1"
    assert host_of("tls://[::1]:8786") == "::1"


def test_the_message_names_the_cause_and_the_remedy() -> None:
    refuse_exposed("127.0.0.1")
    with pytest.raises(ConfigError, match=r"everybody who reaches 192\.0\.2\.1 .*--secret-file"):
        refuse_exposed("192.0.2.1")
    refuse_exposed_scheduler("tcp://localhost:1", "tcp://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"listens at tcp://192\.0\.2\.1:1 too, .*--host 127"):
        refuse_exposed_scheduler("tcp://127.0.0.1:1", "tcp://192.0.2.1:1")
