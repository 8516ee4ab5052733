"""Plans, what crosses the wire, and the plans that agents make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide import _core
from bolide.errors import ConfigError, Error
from bolide.fleet import wire
from bolide.fleet.order import engine_plan, orders
from fleet.samples import REQUEST, order, plan


def carried(given: wire.Order) -> wire.Order:
    """Return an order as an agent receives it."""
    found = wire.question(wire.encode(wire.Prepare(run="r", order=given)))
    assert isinstance(found, wire.Prepare)
    return found.order


SHAPES: list[dict[str, Any]] = [
    {},
    {"rate_per_s": 100},
    {"duration_s": None, "requests_total": 1001},
    {
        "duration_s": None,
        "stages": [
            {"duration_s": 1.0, "start_rate_per_s": 0.0, "rate_per_s": 5.0},
            {"duration_s": 2.0, "rate_per_s": 9.0},
        ],
    },
    {"duration_s": None, "stages": [{"duration_s": 1, "connections": 30, "start_connections": 1}]},
    {"http_version": "2", "streams": 8, "is_persistent": True},
    {"deadline_s": 0.5, "pipeline_depth": 4},
]


@pytest.mark.parametrize("shape", SHAPES, ids=[", ".join(each) or "plain" for each in SHAPES])
def test_a_generator_gets_the_plan_that_the_coordinator_had(shape: dict[str, Any]) -> None:
    given = plan(threads=2, **shape)
    found = [engine_plan(carried(each), "10.0.0.1:81", None) for each in orders(given, 3)]
    for index, each in enumerate(found):
        assert each.pop("part") == {"threads_before": 2 * index, "threads_all": 6}
        assert each.pop("is_gated") is True
        assert each.pop("address") == "10.0.0.1:81"
        expected = {key: value for key, value in given.items() if value is not None}
        left = {key: value for key, value in each.items() if value is not None}
        for key in ("address", "cpus", "source_addresses"):
            del expected[key]
        assert left == expected
        assert each["requests"] == [REQUEST]
        part = {"threads_before": 0, "threads_all": 6}
        _core.Load(each | {"address": "10.0.0.1:81", "part": part})


def test_shares_of_connections_are_exact() -> None:
    shares = [each.own_connections for each in orders(plan(connections=11, threads=2), 2)]
    assert shares == [6, 5]
    shares = [each.own_connections for each in orders(plan(connections=7, threads=1), 4)]
    assert shares == [2, 2, 2, 1]


def test_shares_of_requests_are_exact() -> None:
    divided = orders(plan(duration_s=None, requests_total=3), 4)
    assert [each.own_requests for each in divided] == [1, 1, 1, 0]
    assert [each.own_requests for each in orders(plan(), 2)] == [None, None]


def test_each_thread_has_a_connection() -> None:
    with pytest.raises(ConfigError, match="3 are fewer than the threads of 2 agents with 2 each"):
        orders(plan(connections=3, threads=2), 2)


def test_a_run_that_is_too_long_for_its_result_is_refused() -> None:
    half_a_day_s = 12 * 3600.0
    assert len(orders(plan(duration_s=half_a_day_s), 2)) == 2
    expected = (
        "^a load of a fleet takes 12 hours at most, because its result has a histogram for each "
        "second; run several$"
    )
    for changes in (
        {"duration_s": half_a_day_s, "warm_up_s": 60.0},
        {"duration_s": None, "requests_total": 50_000, "rate_per_s": 1.0},
    ):
        with pytest.raises(ConfigError, match=expected):
            orders(plan(**changes), 2)


def test_authorities_are_sent_and_a_key_never(tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(b"-----BEGIN")
    tls = {
        "server_name": "shop.test",
        "authorities": str(file),
        "pair": None,
        "is_resumed": True,
        "version_min": "1.2",
        "version_max": "1.3",
    }
    [only] = orders(plan(tls=tls), 1)
    assert only.tls is not None and only.tls.authorities == b"-----BEGIN"
    assert engine_plan(carried(only), "10.0.0.1:81", "/there.pem")["tls"] == {
        key: value for key, value in (tls | {"authorities": "/there.pem"}).items() if key != "pair"
    }
    tls["authorities"] = str(tmp_path / "none.pem")
    with pytest.raises(ConfigError, match="cannot read"):
        orders(plan(tls=tls), 1)


def test_an_ipv6_address_loses_its_brackets() -> None:
    [only] = orders(plan(address="[::1]:8000"), 1)
    assert (only.host, only.port) == ("::1", 8000)


def test_another_version_is_refused_in_one_line() -> None:
    octets = wire.encode(wire.Hello())
    for old, new in [(_core.__version__, "9.9.9"), ('"schema":3', '"schema":4')]:
        other = octets.decode().replace(old, new, 1).encode()
        assert other != octets
        with pytest.raises(wire.VersionError, match="install the same version"):
            wire.question(other)


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\x80\x04",
        b"{}",
        wire.encode(wire.Hello()).replace(b"hello", b"shell"),
        wire.encode(wire.Prepare(run="r", order=order())).replace(b'"port"', b'"file"'),
        wire.encode(wire.Begin(run="r", at_ns=5)).replace(b"5}", b'"5"}'),
        wire.encode(wire.Time(now_ns=1)),  # a reply is no question
    ],
)
def test_what_is_no_message_is_refused(octets: bytes) -> None:
    with pytest.raises(Error, match="malformed"):
        wire.question(octets)
