"""The open-loop part of a study: its workloads, its rates, and where it is in the order."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab.plan import open_loop, study
from bolide.lab.plan.open_loop import OpenLoop
from bolide.lab.plan.schedule import Slot, slots
from bolide.lab.record.schema import Contestant, Failure, Served, Trial, Workload
from bolide.lab.report.summary import Figure
from lab import sample_race
from lab.tiny_race import liar, workload

BASE = workload(name="kept-bolide", requests_total=100, duration_s=None)
STUDY = """
title = "T"
document = "none"
contestants = ["bolide-*"]
[open_loop]
of = "a-bolide"
[[workload]]
name = "a"
tools = ["bolide", "wrk"]
connections = 4
[[workload]]
name = "deep"
tools = ["bolide"]
connections = 4
pipeline_depth = 2
"""


def trial(contestant: str, rate: float | None, round_: int = 1, **more: object) -> Trial:
    fields = {
        "study": "tiny",
        "workload": "kept-bolide",
        "contestant": contestant,
        "round": round_,
        "tool": "bolide",
        "tool_version": None,
        "command": [],
        "started_at": "",
        "is_valid": rate is not None,
        "failure": None if rate is not None else Failure("died", "it did"),
        "requests_per_s": rate,
        "ok": None if rate is None else 100,
        "verdict": "server-bound",
    }
    return Trial(**(fields | more))  # type: ignore[arg-type]


def of_base(**more: object) -> dict[str, Workload]:
    table = OpenLoop(of="kept-bolide", **more)  # type: ignore[arg-type]
    return {each.name: each for each in open_loop.workloads(table, BASE)}


def test_each_share_of_both_maxima_is_a_workload() -> None:
    found = of_base()
    assert list(found) == [
        *(f"open-{kind}{share}-bolide" for kind in ("own", "common") for share in (25, 50, 75, 90)),
        "find-bolide",
    ]
    half = found["open-common50-bolide"]
    assert (half.rate_of, half.rate_share, half.maximum) == ("common", 0.5, "kept-bolide")
    assert (half.requests_total, half.duration_s, half.rounds) == (None, 3.0, 3)
    assert half.connections == BASE.connections and not half.is_quick
    search = found["find-bolide"]
    assert (search.finds, search.rounds, search.duration_s) == ("p99 < 10ms", 1, 2.0)


def test_shares_and_search_are_the_files() -> None:
    found = of_base(shares=(0.5,), find="", rounds=2, contestants=("a",))
    assert list(found) == ["open-own50-bolide", "open-common50-bolide"]
    assert {(each.rounds, each.contestants) for each in found.values()} == {(2, ("a",))}


def test_a_maximum_is_the_median_of_its_valid_rounds() -> None:
    trials = [trial("a", 100.0), trial("a", 300.0, 2), trial("a", 110.0, 3), trial("b", None)]
    trials += [trial("a", 9.0, 4, workload="other"), trial("a", 400.0, 2)]
    assert open_loop.maxima(trials, BASE) == {"a": 110.0}


def test_a_maximum_is_that_of_a_figure_in_the_table() -> None:
    """The one round of seven that did not fail is no figure, and sets nobody's rate."""
    rare = [trial("rare", None, number) for number in range(1, 7)] + [trial("rare", 5.0, 7)]
    half = [trial("half", None), trial("half", 50.0, 2)]
    most = [trial("most", None), trial("most", 70.0, 2), trial("most", 90.0, 3)]
    few = Served(connections=1, starved=9, min=1, median=9, max=9)
    starved = [trial("starved", 60.0, ok=1000, served=few)]
    trials = [*rare, *half, *most, *starved]
    assert open_loop.maxima(trials, BASE) == {"most": 80.0}
    for name, own in (("rare", rare), ("half", half), ("most", most), ("starved", starved)):
        figure = Figure(BASE, _record(name), own)
        assert (figure.rate is not None) == (name == "most")


def _record(name: str) -> Contestant:
    [found, *_] = sample_race.contestants()
    return msgspec.structs.replace(found, name=name)


def test_the_closed_workload_is_that_of_the_maxima() -> None:
    for each in of_base().values():
        found = msgspec.structs.replace(
            open_loop.closed(each), duration_s=None, requests_total=100, rounds=BASE.rounds
        )
        assert found == BASE


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("open-own25-bolide", 30_900.0),
        ("open-own90-bolide", 111_000.0),
        ("open-common50-bolide", 250.0),
        ("find-bolide", 61_700.0),
    ],
)
def test_a_rate_is_a_share_of_a_maximum(name: str, rate: float) -> None:
    slot = Slot(2, of_base()[name], liar("fast"))
    found = open_loop.with_rate(slot, {"fast": 123_456.0, "slow": 500.0})
    assert found is not None
    assert (found.round, found.workload.rate_per_s) == (2, rate)


def test_without_a_maximum_there_is_no_rate() -> None:
    slot = Slot(1, of_base()["open-common50-bolide"], liar("fast"))
    assert open_loop.with_rate(slot, {"slow": 500.0}) is None


def test_a_rate_is_a_whole_number_as_the_generator_reads_it() -> None:
    slot = Slot(1, of_base()["open-own25-bolide"], liar("slow"))
    found = open_loop.with_rate(slot, {"slow": 250.0})  # 62.5 is rounded to an even number
    assert found is not None and found.workload.rate_per_s == 62.0


def test_a_rate_is_never_nothing() -> None:
    slot = Slot(1, of_base()["open-own25-bolide"], liar("slow"))
    found = open_loop.with_rate(slot, {"slow": 0.4})
    assert found is not None and found.workload.rate_per_s == 1.0


def test_the_open_loop_follows_all_rounds_of_the_others() -> None:
    opened = of_base(shares=(0.5,), rounds=2)
    order = slots([liar("a")], [*opened.values(), BASE], range(1, 4), 1)
    opens = ["open-common50-bolide", "open-own50-bolide"]
    rounds = [(each.round, each.workload.name) for each in order]
    assert rounds[:3] == [(1, "kept-bolide"), (2, "kept-bolide"), (3, "kept-bolide")]
    assert sorted(rounds[3:6]) == [(1, name) for name in ("find-bolide", *opens)]
    assert sorted(rounds[6:]) == [(2, name) for name in opens]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"a-bolide"', '"b-bolide"', "open_loop refers to no workload: 'b-bolide'"),
        (
            '"a-bolide"',
            '"a-wrk"',
            "open_loop needs a closed loop of single requests by bolide: 'a-wrk'",
        ),
        (
            '"a-bolide"',
            '"deep-bolide"',
            "open_loop needs a closed loop of single requests by bolide: 'deep-bolide'",
        ),
        (
            '"a-bolide"',
            '"a-bolide"\ncontestants = ["uvicorn"]',
            "open_loop: 'uvicorn' does not run 'a-bolide'",
        ),
        ('"a-bolide"', '"a-bolide"\nshares = [0.0]', "Expected `float` > 0.0"),
    ],
)
def test_a_wrong_part_is_one_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(STUDY.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        study.load(str(path))
    assert str(caught.value).startswith(f"x.toml: {message}")
    assert "\n" not in str(caught.value)


def test_every_study_of_a_document_has_one() -> None:
    for name in study.names():
        plan = study.load(name).study
        if plan.requirements:
            continue
        found = plan.workloads
        opened = [each for each in found if each.maximum]
        assert len(opened) == 9, name
        assert {each.maximum for each in opened} <= {each.name for each in found}, name
