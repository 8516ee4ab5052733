"""What a terminal shows at a race's end: medians, shares of the ceiling, what went wrong."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from bolide.lab.display import Terminal, league_table
from bolide.lab.record.schema import Failure, Trial
from lab import sample_race


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
        "requests_per_s": rate,
        "verdict": "server-bound",
    }
    return Trial(**{**fields, **more})


def _shown(trials: list[Trial], title: str = "Mine") -> list[list[str]]:
    study = sample_race.study("mine", title, [sample_race.workload("c100", "bolide", 100)])
    out = io.StringIO()
    Console(file=out, width=100).print(league_table(study, trials))
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
    ]


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
    terminal.ended(_trial("[/b]", 1, 1000.0))
    noted, failed, ended = capsys.readouterr().err.splitlines()
    assert noted == "a [/dim] b\\"
    assert failed.split()[:4] == ["[b]", "c100", "1", "start:"]
    assert failed.endswith("ended with 1: [/red] \\[bold]x\\")
    assert ended.split() == ["[/b]", "c100", "1", "1,000/s", "server-bound"]
