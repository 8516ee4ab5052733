"""What a race asks of `bolide load --fleet`, and which of its results are figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bolide.lab.record.schema import FleetUse
from bolide.lab.tools import TOOLS, Load, ToolError, find
from bolide.lab.tools.fleet import Fleet, InvalidLoadError

LOAD = Load(
    "http://10.0.0.5:8000/",
    connections=100,
    threads=4,
    fleet=Fleet("tcp://10.0.0.1:8786", 3, Path("/run/secret"), ("slow",)),
)
BUSY = "agent b was CPU-bound: its busiest thread worked 97% of the time"
LOST = "agent b was lost: it did not respond for 5 s"
SHORT = "agent b achieved only 95.0% of its 50 requests/s"


def agent(name: str, **more: Any) -> dict[str, Any]:
    """Return what the report says of one agent."""
    found = {
        "name": name,
        "host": f"host-{name}",
        "processors": 2,
        "processor": "p",
        "kernel": "Linux 6",
        "memory_bytes": 1 << 33,
        "python": "3.12.1",
        "is_release_build": True,
        "threads": 2,
        "connections": 50,
        "requests_per_s": 500.0,
        "ok": 500,
        "failed": 0,
        "generator_cpu": 0.4,
        "generator_waited": 0.01,
        "start_late_us": 120.0,
        "clock_uncertainty_us": 80.0,
        "lost": None,
    }
    return found | more


def report(**more: Any) -> str:
    """Return what `bolide load --json` prints of two agents."""
    found = {
        "ok": 1000,
        "failed": 0,
        "errors": {"timeout": 0},
        "requests_per_s": 1000.0,
        "seconds": 1.0,
        "latency_us": {"mean": 1.0},
        "histogram": [[1.0, 1000]],
        "bytes_per_s": 5.0,
        "generator_cpu": 0.4,
        "generator_cpu_s": 0.7,
        "achieved_share": None,
        "connections_served": {"connections": 100, "starved": 0, "min": 9, "median": 10, "max": 11},
        "invalid": [],
        "invalid_kinds": [],
        "fleet": {
            "start_skew_us": 30.0,
            "start_skew_uncertainty_us": 160.0,
            "agents": [agent("a"), agent("b")],
        },
    } | more
    found["warnings"] = [f"the result is not valid: {each}" for each in found["invalid"]]
    return json.dumps(found)


def test_the_command_names_the_agents_and_divides_the_threads() -> None:
    words = find("bolide").command(LOAD)
    at = words.index("-t")
    assert words[at : at + 10] == [
        *("-t", "2", "--fleet", "tcp://10.0.0.1:8786", "--secret-file", "/run/secret"),
        *("--agents", "3", "--without-agent", "slow"),
    ]


def test_a_local_fleet_has_its_number_in_its_name() -> None:
    words = find("bolide").command(replace(LOAD, fleet=Fleet("local:3", 3), connections=4))
    at = words.index("-t")
    assert words[at : at + 5] == ["-t", "1", "--fleet", "local:3", "--timeout"]


@pytest.mark.parametrize("name", sorted(TOOLS.keys() - {"bolide"}))
def test_no_other_tool_loads_from_a_fleet(name: str) -> None:
    load = replace(LOAD, threads=1)
    if name == "hold":
        load = replace(load, requests_total=100)
    with pytest.raises(ToolError, match="cannot do|rate|requests"):
        find(name).command(load)


def test_a_valid_result_has_what_each_agent_did() -> None:
    found = find("bolide").read(report(), "", 0, LOAD)
    assert (found.ok, found.is_short_of_time, found.remarks) == (1000, False, [])
    use = msgspec.convert(found.fleet, FleetUse)
    assert [each.machine.host for each in use.agents] == ["host-a", "host-b"]
    assert [each.ok for each in use.agents] == [500, 500]
    assert (use.start_skew_us, use.start_skew_uncertainty_us) == (30.0, 160.0)
    machine = use.agents[0].machine
    assert (machine.cpu_model, machine.cpus, machine.memory_bytes) == ("p", 2, 1 << 33)


@pytest.mark.parametrize(
    ("kinds", "reasons", "achieved"),
    [
        (["lost"], [LOST], None),
        (["late"], ["agent b started 200 ms late"], None),
        (["ended"], ["agent b ended the load at its --duration-max"], None),
        (["lost", "processor"], [LOST, BUSY], None),
        (["share"], ["agent b had only 10 of its 50 connections"], None),
        (["share"], [SHORT], 0.995),  # of one agent only: the latency is that of another load
    ],
)
def test_what_is_not_valid_has_no_figure(
    kinds: list[str], reasons: list[str], achieved: float | None
) -> None:
    text = report(invalid=reasons, invalid_kinds=kinds, achieved_share=achieved)
    with pytest.raises(InvalidLoadError) as caught:
        find("bolide").read(text, "", 4, LOAD)
    assert str(caught.value) == "; ".join(reasons)
    use = msgspec.convert(caught.value.use, FleetUse)
    assert use.invalid == tuple(reasons)


@pytest.mark.parametrize(
    ("kinds", "reasons", "achieved", "is_short"),
    [
        (["processor"], [BUSY], None, True),  # as of a local load: the generator was the limit
        (["share"], [SHORT], 0.95, False),  # of all: the rate was not served
        (["processor", "share"], [BUSY, SHORT], 0.95, True),
    ],
)
def test_a_limit_of_the_load_is_a_figure_with_its_reason(
    kinds: list[str], reasons: list[str], achieved: float | None, is_short: bool
) -> None:
    text = report(invalid=reasons, invalid_kinds=kinds, achieved_share=achieved)
    found = find("bolide").read(text, "", 4, LOAD)
    assert (found.is_short_of_time, found.remarks) == (is_short, reasons)


def search(**more: Any) -> dict[str, Any]:
    trials = [{"rate_per_s": 100.0, "is_valid": True, "reason": ""}]
    found = {"rate_per_s": 100.0, "limit": "server", "ended": None, "is_confirmed": True}
    return found | {"trials": trials} | more


def test_a_search_that_could_not_go_on_has_no_figure() -> None:
    load = replace(LOAD, finds="p99 < 10ms", rate_per_s=100.0)
    bad = {"rate_per_s": 200.0, "is_valid": False, "reason": LOST}
    unknown = search(limit="invalid", trials=[bad, bad])
    with pytest.raises(InvalidLoadError, match="the highest rate with p99 < 10ms is not known: "):
        find("bolide").read(report(find=unknown), "", 4, load)
    nothing = search(limit="generator", rate_per_s=None, trials=[bad])
    with pytest.raises(InvalidLoadError, match=LOST):
        find("bolide").read(report(find=nothing), "", 4, load)
    found = find("bolide").read(report(find=search()), "", 0, load)
    assert found.remarks == ["the server met p99 < 10ms up to this rate"]


def test_a_load_that_agents_refuse_is_the_fleets_failure() -> None:
    said = "bolide: error: agent b: 5,000 connections are more than its --connections-max 1,000"
    with pytest.raises(InvalidLoadError, match="more than its --connections-max 1,000") as caught:
        find("bolide").read("", said, 2, LOAD)
    assert caught.value.use == {}
    with pytest.raises(ToolError) as other:
        find("bolide").read("", said, 2, replace(LOAD, fleet=None))
    assert not isinstance(other.value, InvalidLoadError)
