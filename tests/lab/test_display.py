"""What a terminal shows at a race's end: medians, shares of the ceiling, what went wrong."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from bolide.lab.display import Terminal, league_table
from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import Failure, Trial
from bolide.lab.report.summary import gather
from bolide.lab.report.table import ABOVE_CEILING
from lab import sample_race, tiny_race


def _trial(contestant: str, number: int, rate: float | None, **more: Any) -> Trial:
    fields: dict[str, Any] = {
        "study": "mine",
        "workload": "c100",
        "contestant": contestant,
        "round": number,
        "tool": "bolide",
        "tool_version": "0.1.0",
        "command": [],
        "started_at": "2026-11-21T12:00:00+00:00",
        "is_valid": rate is not None,
        "ok": None if rate is None else int(rate),
        "requests_per_s": rate,
        "verdict": "server-bound",
    }
    return Trial(**{**fields, **more})


def _shown(trials: list[Trial], title: str = "Mine") -> list[list[str]]:
    study = sample_race.study("mine", title, [sample_race.workload("c100", "bolide", 100)])
    [model, *_] = [each for each in sample_race.contestants() if each.role == "server"]
    names = dict.fromkeys(each.contestant for each in trials)
    field = [
        msgspec.structs.replace(model, name=name, role="ceiling" if name == "ceiling" else "server")
        for name in names
    ]
    [result] = gather([study, *field, *trials]).results
    out = io.StringIO()
    Console(file=out, width=100).print(league_table(result))
    return [line.split() for line in out.getvalue().splitlines() if line.strip()]


def test_medians_have_their_share_of_the_ceiling() -> None:
    trials = [_trial("ceiling", n, 200_000.0) for n in (1, 2, 3)]
    trials += [_trial("steady", n, rate) for n, rate in ((1, 99_000.0), (2, 1e5), (3, 101_000.0))]
    trials += [_trial("shaky", n, rate) for n, rate in ((1, 30_000.0), (2, 5e4), (3, 90_000.0))]
    assert _shown(trials) == [
        ["Mine"],
        ["requests/s", "c100"],
        ["ceiling", "200,000"],
        ["steady", "100,000", "50%"],
        ["shaky", "~50,000", "25%"],
        "~ the rounds vary by more than 5%".split(),
    ]


def test_noise_and_a_share_above_the_ceiling_are_marked_and_explained() -> None:
    trials = [_trial("ceiling", 1, 100.0), _trial("fast", 1, 110.0, verdict="noisy")]
    lines = [" ".join(each) for each in _shown(trials)]
    assert lines[2:4] == ["fast !110 110%", "ceiling 100"]
    assert lines[4] == "! noisy: other work took processor time, so do not rely on it"
    assert " ".join(lines[5:]) == ABOVE_CEILING
    steady = [_trial("ceiling", 1, 100.0), _trial("slow", 1, 90.0)]
    assert len(_shown(steady)) == 4


def test_the_share_of_the_ceiling_is_the_median_of_the_rounds_ratios() -> None:
    """The machine was slower in some rounds: the ratio of the medians would be 50 %."""
    pairs = {1: (100e3, 90e3), 2: (200e3, 60e3), 3: (300e3, 100e3)}
    trials = [_trial("ceiling", n, whole) for n, (whole, _) in pairs.items()]
    trials += [_trial("fast", n, rate) for n, (_, rate) in pairs.items()]
    assert _shown(trials)[3] == ["fast", "~90,000", "33%"]


def test_what_has_no_figure_says_why() -> None:
    hang = Failure("hang", "wrk has not ended after 38 s")
    trials = [
        _trial("well", 1, 10.0),
        _trial("ill", 1, None, failure=hang, verdict="failed"),
        _trial("wrong", 1, 10.0, is_valid=False, verdict="errors"),
    ]
    assert _shown(trials)[2:] == [["well", "10"], ["ill", "hang"], ["wrong", "errors"]]


def test_texts_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert _shown([_trial("well", 1, 10.0)], "[/nonsense]")[0] == ["[/nonsense]"]
    terminal = Terminal()
    failure = Failure("start", "ended with 1: [/red] \\[bold]x\\")
    terminal.note("a [/dim] b\\")
    terminal.ended(_trial("[b]", 1, None, failure=failure, verdict="failed"))
    terminal.ended(_trial("[/b]", 1, 1000.0, evidence=["the server used 0.98 of 1 processor"]))
    starved = "95 of 100 connections were not served: the rate is that of 5"
    terminal.ended(
        _trial("few", 1, 1000.0, is_valid=False, verdict="errors", evidence=[starved, "more"])
    )
    noted, failed, ended, few = capsys.readouterr().err.splitlines()
    assert noted == "a [/dim] b\\"
    assert failed.split()[:4] == ["[b]", "c100", "1", "start:"]
    assert failed.endswith("ended with 1: [/red] \\[bold]x\\")
    assert ended.split() == ["[/b]", "c100", "1", "1,000/s", "server-bound"]
    assert few.endswith(f"1  errors: {starved}")  # no rate next to a failure


def test_the_remaining_time_is_a_line_each_minute(capsys: pytest.CaptureFixture[str]) -> None:
    times = [0.0]
    terminal = Terminal(now_s=lambda: times[0])
    load = tiny_race.workload(duration_s=28.8)
    slots = [Slot(number, load, tiny_race.liar("well")) for number in range(5)]
    terminal.start(slots, done=2)
    for slot in slots:
        terminal.running(slot)
        times[0] += 30.0
        terminal.ended(_trial("well", slot.round, 1000.0))
    lines = capsys.readouterr().err.splitlines()
    shown = [line.partition(", until about ")[0] for line in lines if " left" in line]
    assert shown == ["4 of 7 trials, 90 s left", "6 of 7 trials, 30 s left"]


def test_a_quiet_race_shows_only_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(is_quiet=True)
    terminal.note("a remark")
    terminal.start([], done=0)
    terminal.ended(_trial("well", 1, 1000.0))
    terminal.stop()
    assert capsys.readouterr().err == "a remark\n"
