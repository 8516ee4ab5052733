"""What a terminal shows of a study's document at the end: its table, and what does not hold."""

from __future__ import annotations

import io
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from bolide.lab.record.schema import Trial
from bolide.lab.report.summary import Race, Result, gather
from bolide.lab.report.table import ABOVE_CEILING
from bolide.lab.report.terminal import of_document, of_noise
from lab import sample_race


@pytest.fixture(scope="module")
def race() -> Race:
    return gather(sample_race.records())


def result(race: Race, name: str) -> Result:
    return next(each for each in race.results if each.study.name == name)


def shown(found: Result, width: int = 120) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    for each in of_document(found):
        console.print(each)
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]


def test_published_figures_are_beside_ours(race: Race) -> None:
    found = result(race, "pipelining")
    figure = found.figures["pipelined-wrk", "japronto"]
    share = found.of_ceiling(figure)
    assert figure.rate is not None and share is not None
    lines = shown(found)
    assert lines[:3] == [
        "The document's table",
        "pipelined-wrk: pipelined-wrk: here/",
        "contestant published here published of ceiling",
    ]
    ours, ratio = figure.rate.middle, figure.rate.middle / 1214440
    assert lines[3] == f"Japronto 1,214,440 {ours:,.0f} {ratio:.2f}× {share.middle * 100:.0f} %"
    assert len(lines) == 7  # ours below it, and no sentence


def test_what_does_not_hold_is_marked_and_said(race: Race) -> None:
    lines = shown(result(race, "python-common"))
    [row] = [line for line in lines if line.startswith("uWSGI")]
    assert row.startswith("uWSGI (5 processes) 14,485 * ")
    assert lines[-2:] == [
        "Invalid published figures:",
        "- uWSGI (5 processes), 14,485 requests/s (c2000-ab): all 10,000 responses were errors"
        " (Non-2xx responses: 10000)",
    ]


def test_loops_have_the_first_load_alone(race: Race) -> None:
    lines = shown(result(race, "aiohttp-uvloop"))
    assert lines[0] == "The document's table: threads100-wrk"
    assert [line.split()[0] for line in lines if line[:7] in ("uvloop ", "asyncio")] == [
        "uvloop",
        "asyncio",
    ]
    assert "published 10,265" in " ".join(lines)


def test_a_narrow_terminal_loses_no_figure(race: Race) -> None:
    assert "14,485" in "".join(shown(result(race, "python-common"), width=60))
    assert "…" not in "".join(shown(result(race, "python-common"), width=60))


def test_texts_are_no_markup(race: Race) -> None:
    found = result(race, "python-common")
    published = tuple(
        msgspec.structs.replace(each, does_not_hold="[/nonsense]") for each in found.study.published
    )
    study = msgspec.structs.replace(found.study, published=published)
    assert any(line.endswith("[/nonsense]") for line in shown(Result(study, found.figures)))


def test_a_study_without_published_figures_shows_nothing(race: Race) -> None:
    found = result(race, "pipelining")
    study = msgspec.structs.replace(found.study, published=())
    assert of_document(Result(study, found.figures)) == []
    ours = {key: each for key, each in found.figures.items() if key[1] != "japronto"}
    assert of_document(Result(found.study, ours)) == []


def test_a_race_with_many_noisy_trials_begins_with_a_banner(race: Race) -> None:
    assert of_noise(race) == []
    for share, said in (
        (0.3, "The rows that are marked noisy are not reliable."),
        (0.6, "This race decides nothing."),
    ):
        records = sample_race.records(rounds=1)
        trials = [place for place, each in enumerate(records) if isinstance(each, Trial)]
        for place in trials[: int(share * len(trials))]:
            records[place] = msgspec.structs.replace(records[place], verdict="noisy")  # type: ignore[call-overload]
        out = io.StringIO()
        console = Console(file=out, width=160)
        for each in of_noise(gather(records)):
            console.print(each)
        assert said in out.getvalue()
        assert f"{int(share * len(trials))} of {len(trials)} trials were noisy" in out.getvalue()


def test_the_note_of_a_table_is_below_it(race: Race) -> None:
    found = result(race, "pipelining")
    figure = found.figures["pipelined-wrk", "japronto"]
    fast = [msgspec.structs.replace(each, requests_per_s=5e6) for each in figure.trials]
    figures = found.figures | {("pipelined-wrk", "japronto"): replace(figure, trials=fast)}
    lines = shown(replace(found, figures=figures), width=400)
    assert lines[-1] == ABOVE_CEILING
