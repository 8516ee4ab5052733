"""What an agent may load, whatever it is asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from bolide.errors import ConfigError, Error
from bolide.fleet.limits import Limits, RefusedError, network
from fleet.samples import order


@pytest.fixture
def port() -> Iterator[int]:
    """Return the port of a listener on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("127.0.0.1", True),
        ("127.255.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("169.254.169.254", False),
        ("fe80::1%lo", False),
    ],
)
def test_without_a_list_only_loopback_is_allowed(address: str, is_allowed: bool) -> None:
    assert Limits().allows(address) is is_allowed


def test_a_list_replaces_loopback() -> None:
    limits = Limits((network("10.1.0.0/16"), network("fd00::/8")))
    assert limits.allows("10.1.2.3") and limits.allows("fd00::7")
    assert limits.allows("::ffff:10.1.2.3")
    assert not limits.allows("127.0.0.1") and not limits.allows("10.2.0.0")


def test_a_network_with_a_mistake_is_refused() -> None:
    assert str(network("10.1.2.3")) == "10.1.2.3/32"
    for text in ("10.0.0.1/8", "example.com", "10.0.0.0/33", ""):
        with pytest.raises(ConfigError, match="--allow"):
            network(text)


def test_the_address_that_is_checked_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    resolutions: list[list[str]] = [["10.9.9.9", "127.0.0.1"], ["10.9.9.9"]]

    def resolve(host: str, port: int, **more: Any) -> list[Any]:
        found = resolutions.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert str(Limits().address_of("shop.test", port)) == f"127.0.0.1:{port}"
    assert len(resolutions) == 1  # resolved once
    with pytest.raises(RefusedError, match="10.9.9.9 is not in what it may load"):
        Limits().address_of("shop.test", port)


def test_a_server_that_is_not_there_is_no_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Error, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"):
        Limits().address_of("127.0.0.1", port)
    with pytest.raises(RefusedError, match="no address for 'nowhere.invalid'"):
        Limits().address_of("nowhere.invalid", port)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"connections": 101}, "51 connections are more than its --connections-max 50"),
        ({"duration_s": 9.0, "warm_up_s": 1.5}, "10.5 s are longer than its --duration-max 10.0 s"),
        (
            {"duration_s": None, "stages": [{"duration_s": 6.0, "rate_per_s": 5.0}] * 2},
            "12.0 s are longer",
        ),
    ],
)
def test_an_order_beyond_a_limit_is_refused(changes: dict[str, Any], message: str) -> None:
    limits = Limits(connections_max=50, duration_s_max=10.0)
    limits.check(order())
    with pytest.raises(RefusedError, match=message):
        limits.check(order(**changes))


def test_a_number_of_requests_has_no_planned_end() -> None:
    Limits(duration_s_max=1.0).check(order(duration_s=None, requests_total=10**9))
