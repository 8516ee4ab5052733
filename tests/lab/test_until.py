"""More rounds until intervals are narrow: which workloads, and what will not become narrow."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bolide.lab import race, until
from bolide.lab.plan import open_loop
from bolide.lab.plan.open_loop import OpenLoop
from bolide.lab.plan.schedule import Slot
from bolide.lab.record import schema
from bolide.lab.record.schema import Trial
from bolide.lab.report.summary import Result, gather
from bolide.lab.trial import trial
from lab import sample_race
from lab.tiny_race import Silent, among, options, study, trials_of, workload

STEADY = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0]
SHAKY = [100.0, 104.0, 96.0, 100.0, 104.0, 96.0]
WILD = [50.0, 200.0, 20.0, 100.0, 300.0, 50.0]


def result(**rates: list[float]) -> Result:
    """Return what was measured of contestants with these rates by round, at one workload."""
    load = sample_race.workload("c100", "bolide", 100)
    [model, *_] = [each for each in sample_race.contestants() if each.role == "server"]
    found: list[schema.Record] = [sample_race.study("mine", "Mine", [load])]
    for name, values in rates.items():
        found.append(msgspec.structs.replace(model, name=name))
        found += [
            Trial(
                study="mine",
                workload="c100",
                contestant=name,
                round=number,
                tool="bolide",
                tool_version=None,
                command=[],
                started_at="",
                is_valid=value > 0,
                ok=int(value),
                requests_per_s=value,
                verdict="server-bound",
            )
            for number, value in enumerate(values, 1)
        ]
    [gathered] = gather(found).results
    return gathered


def test_narrow_intervals_need_nothing() -> None:
    found = until.need(result(one=STEADY, two=STEADY, failing=[0.0] * 6), 0.02)
    assert (found.workloads, found.hopeless) == ([], [])


def test_one_wide_interval_is_another_round_for_all() -> None:
    found = until.need(result(one=STEADY, two=SHAKY), 0.02)
    assert [each.name for each in found.workloads] == ["c100"]
    assert found.hopeless == []


def test_too_few_rounds_are_no_narrow_interval() -> None:
    assert until.need(result(one=STEADY[:4]), 0.5).workloads


def test_what_will_not_become_narrow_is_named_and_not_waited_for() -> None:
    found = until.need(result(one=STEADY, two=WILD), 0.02)
    assert found.workloads == []
    assert found.hopeless == [
        "two at c100 will not be within 2.0% (now 300.0%): that would take about 12363 rounds"
    ]


def test_no_race_goes_on_for_ever() -> None:
    found = until.need(result(one=[99.0, 101.0] * 27), 0.005)
    assert found.workloads == [] and len(found.hopeless) == 1


def test_an_open_loop_takes_its_rates_from_all_rounds(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = [10 * rate for rate in (*SHAKY, *[103.0] * 40)]

    def run(slot: Slot, conditions: trial.Conditions) -> Trial:
        found = trial.failed(slot, conditions, schema.Failure("none", ""))
        rate = slot.workload.rate_per_s or rates[slot.round - 1]
        return msgspec.structs.replace(
            found,
            is_valid=True,
            failure=None,
            ok=100,
            requests_per_s=rate,
            verdict="server-bound",
            offered_per_s=slot.workload.rate_per_s,
        )

    monkeypatch.setattr(trial, "run", run)
    base = workload(name="short-bolide")
    table = OpenLoop(of=base.name, shares=(0.5,), rounds=2, find="")
    planned = study(base, *open_loop.workloads(table, base), rounds=6)
    assert race.run(planned, ["honest"], options(tmp_path, until=0.02), silent, among("honest"))
    found = trials_of(tmp_path)
    closed = [each for each in found if each.workload == base.name]
    assert len(closed) > 6
    assert found[: len(closed)] == closed
    assert {each.offered_per_s for each in found[len(closed) :]} == {515.0}


@pytest.mark.parametrize(
    ("rates", "rounds", "notes"),
    [
        (STEADY, 6, 0),
        ([*SHAKY, *[100.0] * 9], 12, 0),
        (WILD, 6, 1),
    ],
)
def test_a_race_ends_when_its_intervals_are_narrow(
    rates: list[float],
    rounds: int,
    notes: int,
    tmp_path: Path,
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(slot: Slot, conditions: trial.Conditions) -> Trial:
        found = trial.failed(slot, conditions, schema.Failure("none", ""))
        rate = rates[slot.round - 1]
        return msgspec.structs.replace(
            found, is_valid=True, failure=None, ok=100, requests_per_s=rate, verdict="server-bound"
        )

    monkeypatch.setattr(trial, "run", run)
    planned = study(workload(), rounds=6)
    given = options(tmp_path, until=0.02)
    assert race.run(planned, ["honest"], given, silent, among("honest"))
    assert [each.round for each in trials_of(tmp_path)] == list(range(1, rounds + 1))
    assert len([note for note in silent.notes if "will not be within" in note]) == notes
    resumed = options(tmp_path, until=0.02, resumes=True)
    assert race.run(planned, ["honest"], resumed, silent, among("honest"))
    assert len(trials_of(tmp_path)) == rounds
