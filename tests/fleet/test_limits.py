"""What an agent may load, whatever it is asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from bolide.errors import ConfigError, Error
from bolide.fleet.limits import Limits, RefusedError, network
from fleet.samples import REQUEST, order


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
    with pytest.raises(
        Error, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"
    ) as raised:
        Limits().address_of("127.0.0.1", port)
    assert not isinstance(raised.value, RefusedError)
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
        (
            {"duration_s": None, "requests_total": 3_000},
            "15.0 s are longer than its --duration-max",
        ),
        ({"threads": 5, "threads_all": 10}, "5 threads are more than its --threads-max 4"),
        ({"pipeline_depth": 1_001}, "1,001 requests at a time on a connection are more than"),
        ({"streams": 1_001}, "1,001 requests at a time on a connection are more than the 1,000"),
        (
            {"requests": [REQUEST | {"content": bytes(33 << 20)}] * 2},
            "69,206,016 bytes of content are more than the 67,108,864",
        ),
        ({"port": 82}, r"port 82 is not one that it may load \(--port\): 81, 443"),
        ({"rate_per_s": 200.2}, "100.1 requests/s are more than its --rate-max 100.0"),
        ({"rate_per_s": None}, "a load without a rate may exceed its --rate-max; give --rate"),
        (
            {"duration_s": None, "stages": [{"duration_s": 1.0, "connections": 5}]},
            "a load without a rate may exceed its --rate-max",
        ),
        (
            {
                "duration_s": None,
                "stages": [{"duration_s": 1.0, "start_rate_per_s": 202.0, "rate_per_s": 5.0}],
            },
            "101.0 requests/s are more than its --rate-max 100.0",
        ),
    ],
)
def test_an_order_beyond_a_limit_is_refused(changes: dict[str, Any], message: str) -> None:
    limits = Limits(
        connections_max=50,
        duration_s_max=10.0,
        threads_max=4,
        ports=frozenset({81, 443}),
        rate_per_s_max=100.0,
    )
    limits.check(order(rate_per_s=200.0))
    with pytest.raises(RefusedError, match=message):
        limits.check(order(**({"rate_per_s": 200.0} | changes)))


def test_without_options_the_rate_and_the_ports_are_free() -> None:
    limits = Limits()
    limits.check(order(port=1, rate_per_s=1e9))
    limits.check(order(rate_per_s=None))
    assert limits.threads_max >= 4


def test_a_number_of_requests_has_no_planned_end() -> None:
    Limits(duration_s_max=1.0).check(order(duration_s=None, requests_total=10**9))
