"""The engine's binding: what a plan may say, and what its progress and report hold."""

import json
import os
from typing import Any

import pytest

from bolide import _core

PERCENTILES = "min mean stdev p50 p75 p90 p95 p99 p99_9 p99_99 max".split()
CLASSES = (
    "connect refused tls timeout reset early_eof short long malformed wrong_status wrong_body "
    "unexpected_bytes late stream_reset goaway early_response handshake closed"
).split()
NOBODY = "127.0.0.1:1"


def plan(**keys: Any) -> dict[str, Any]:
    """Return a plan that is sound but for what the keys say."""
    return {"address": NOBODY, "requests": [{}], "requests_total": 5, "connections": 1} | keys


def request(**keys: Any) -> dict[str, Any]:
    """Return a plan whose one request says so."""
    return plan(requests=[keys])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"requests": [{}], "duration_s": 1}, "address: a plan needs it"),
        ({"address": NOBODY, "duration_s": 1}, "requests: a plan needs it"),
        (plan(colour="red"), "colour: a plan has no such key"),
        (plan(address="localhost:80"), "is not IP:PORT"),
        (plan(connections=-1), "connections: -1 does not fit"),
        (plan(connections="many"), "connections: many does not fit"),
        (plan(http_version="3"), '"3" is not 1.0, 1.1 or 2'),
        (plan(http_version="2", pipeline_depth=2), "pipeline_depth: HTTP/2 has streams instead"),
        (plan(http_version="1.0", pipeline_depth=2), "HTTP/1.0 has no pipelining"),
        (plan(streams=2), "streams: only HTTP/2 has them"),
        (plan(http_version="2", streams=0), "are at least 1"),
        (plan(source_addresses=["here"]), '"here" is not an IP address'),
        (plan(duration_s=3), "give one of duration_s, requests_total and stages"),
        (plan(requests_total=None), "give one of duration_s, requests_total and stages"),
        (plan(timeout_s=-1), "timeout_s: "),
        (plan(timeout_s=float("nan")), "timeout_s: "),
        (plan(stages=[]), "stages: there is none"),
        (plan(tls={"name": "h"}), "name: tls has no such key"),
        (plan(tls={"version_min": "1.1"}), '"1.1" is not 1.2 or 1.3'),
        (plan(stages=[{"duration_s": 1}], requests_total=None), "stages: each has duration_s"),
        (plan(rate_per_s=0), "0 is not a rate"),
        (
            plan(requests_total=None, rate_per_s=5, stages=[{"duration_s": 1, "rate_per_s": 5}]),
            "leave out rate_per_s",
        ),
        (request(color=1), "color: a request has no such key"),
        (request(weight=-1), "weight: -1 does not fit"),
        (request(content="text"), "content: text does not fit"),
        (request(target="/a b"), "percent-encoded"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        _core.Load(given)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_load_says_what_it_does_and_what_came_of_it() -> None:
    load = _core.Load(plan(stages=None, rate_per_s=None))
    with pytest.raises(RuntimeError, match="not started"):
        load.progress()
    load.start()
    with pytest.raises(RuntimeError, match="starts once"):
        load.start()
    while not load.wait(1.0):
        assert json.loads(load.progress())["phase"] in {"opening", "warm_up", "measuring"}
    progress = json.loads(load.progress())
    assert (progress["phase"], progress["ok"], progress["failed"]) == ("done", 0, 5)
    assert list(progress["interval_latency_us"]) == ["p50", "p99", "max"]
    load.stop()  # which has no effect any more
    report = json.loads(load.report())
    assert list(report["errors"]) == CLASSES
    assert {name for name, count in report["errors"].items() if count} == {"refused"}
    assert list(report["latency_us"]) == list(report["connect_latency_us"]) == PERCENTILES
    assert (report["ok"], report["failed"], report["was_stopped"]) == (0, 5, False)
    assert report["uncorrected_latency_us"] is report["schedule_lag_us"] is None
    assert report["tls"] is None
    assert report["offered_per_s"] is report["achieved_share"] is None
    assert report["connections_served"] == {
        "connections": 0,
        "starved": 1,
        "min": 0,
        "median": 0,
        "max": 0,
        "fairness": 0.0,
    }


def test_an_open_loop_reports_both_latencies_and_the_lag() -> None:
    load = _core.Load(plan(rate_per_s=1000))
    load.start()
    assert load.wait(20.0)
    report = json.loads(load.report())
    assert list(report["uncorrected_latency_us"]) == PERCENTILES
    assert list(report["schedule_lag_us"]) == ["p50", "p99", "max"]
    assert (report["failed"], report["achieved_share"]) == (5, 0.0)


def test_a_stopped_load_ends() -> None:
    load = _core.Load(plan(requests_total=None, duration_s=600))
    load.start()
    load.stop()
    assert load.wait(20.0)
    assert json.loads(load.report())["was_stopped"] is True


def test_a_cpu_that_is_not_there_is_one_line() -> None:
    load = _core.Load(
        plan(
            requests_total=None,
            duration_s=600,
            threads=2,
            connections=2,
            cpus=[min(os.sched_getaffinity(0)), 1000],
        )
    )
    load.start()
    assert load.wait(20.0)
    with pytest.raises(OSError, match="cannot run on CPU 1000"):
        load.report()
