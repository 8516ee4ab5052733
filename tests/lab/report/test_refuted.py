"""What `bolide load` finds in a load holds for the figures of other tools in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bolide.lab.record.schema import GeneratorUse, Record, Served, Trial
from bolide.lab.report.summary import Figure, Race, gather
from lab import sample_race

LOADS = [sample_race.workload(f"kept-{tool}", tool, 100) for tool in ("wrk", "ab", "bolide")]


def trial(tool: str, number: int, **more: Any) -> Trial:
    fields: dict[str, Any] = {
        "study": "one",
        "workload": f"kept-{tool}",
        "contestant": "uwsgi",
        "round": number,
        "tool": tool,
        "tool_version": "1",
        "command": [],
        "started_at": "2026-11-21T14:00:05Z",
        "seconds": 5.0,
        "is_valid": True,
        "ok": 200_000,
        "failed": 0,
        "requests_per_s": 40_000.0,
        "latency_us": {"p50": 1000.0, "p99": 2000.0, "max": 9e5, "mean": 1000.0},
        "generator": GeneratorUse(processors=0.5),
        "verdict": "server-bound",
    }
    return Trial(**(fields | more))


def figures(**of_bolide: Any) -> dict[str, Figure]:
    """Return the figures of the tools, of which `bolide load` found something in each round."""
    records: list[Record] = [
        *sample_race.contestants(),
        sample_race.study("one", "One", LOADS),
        *(trial(tool, number) for tool in ("wrk", "ab") for number in (1, 2, 3)),
        *(trial("bolide", number, **of_bolide) for number in (1, 2, 3)),
    ]
    [found] = gather(records).results
    return {workload: each for (workload, _), each in found.figures.items()}


def test_a_figure_stays_if_bolide_load_has_one_too() -> None:
    found = figures()
    assert all(each.rate and not each.refuted for each in found.values())


STARVED = Served(connections=40, starved=60, min=0, median=0, max=5000, fairness=0.4)


@pytest.mark.parametrize(
    ("of_bolide", "said"),
    [
        (
            {"is_valid": False, "served": STARVED},
            "60 of 100 connections were not served: the rate is that of 40",
        ),
        (
            {"is_valid": False, "failed": 200_000, "errors": {"wrong_body": 200_000, "timeout": 1}},
            "responses are wrong: wrong_body 200,000",
        ),
    ],
)
def test_starved_connections_and_wrong_responses_refute_all_tools(
    of_bolide: dict[str, Any], said: str
) -> None:
    found = figures(**of_bolide)
    for name in ("kept-wrk", "kept-ab"):
        figure = found[name]
        assert figure.rate is None and figure.verdict == "errors"
        assert figure.reason == f"bolide load found that {said}"


def test_one_round_of_three_refutes_nothing() -> None:
    wrong = {"failed": 200_000, "errors": {"wrong_body": 200_000}}
    lost = {"failed": 1000, "errors": {"timeout": 1000}}
    for first, is_refuted in ((lost, False), (wrong, True)):
        records: list[Record] = [*sample_race.contestants(), sample_race.study("one", "One", LOADS)]
        records += [trial("wrk", number) for number in (1, 2, 3)]
        of_bolide = (first, wrong, lost)
        records += [trial("bolide", n, is_valid=False, **m) for n, m in enumerate(of_bolide, 1)]
        [found] = gather(records).results
        assert (found.figures["kept-wrk", "uwsgi"].rate is None) is is_refuted


def test_timeouts_refute_nothing() -> None:
    found = figures(is_valid=False, failed=1000, errors={"timeout": 1000})
    assert found["kept-bolide"].rate is None
    assert found["kept-wrk"].rate and found["kept-ab"].rate


def test_a_ceiling_that_is_uneven_is_in_the_warning_of_the_race() -> None:
    def race(*rates: float) -> Race:
        trials = [
            msgspec.structs.replace(trial("bolide", number), contestant="ceiling", requests_per_s=r)
            for number, r in enumerate(rates, 1)
        ]
        return gather([*sample_race.contestants(), sample_race.study("one", "One", LOADS), *trials])

    assert race(100e3, 104e3, 108e3).warning == ""
    assert race(100e3, 110e3, 120e3).warning.startswith(
        "The machine was uneven: the ceiling, which always does the same, differs between rounds by"
        " more than 5 % (standard deviation) in 1 of 1 loads."
    )


def test_a_race_in_several_sessions_says_when_each_began() -> None:
    first = sample_race.machine()
    second = msgspec.structs.replace(first, started_at="2026-11-21T18:30:00Z")
    assert gather([first]).measured_at == "2026-11-21 14:00 UTC"
    found = gather([first, second]).measured_at
    assert found == "started 2 times, from 2026-11-21 14:00 UTC to 2026-11-21 18:30 UTC"
