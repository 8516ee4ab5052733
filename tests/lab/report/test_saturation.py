"""Latencies at saturation are labelled, in tables and in the titles of charts."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from bolide.lab.record.schema import Verdict
from bolide.lab.report import charts, level_tables, markdown, table
from bolide.lab.report.drawing import svg
from bolide.lab.report.page import render
from bolide.lab.report.summary import Race, Result, gather
from lab import sample_race

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def race() -> Race:
    return gather(sample_race.records())


def result(race: Race, name: str) -> Result:
    return next(each for each in race.results if each.study.name == name)


@pytest.mark.parametrize(
    ("verdicts", "is_saturated"),
    [
        (["server-bound"] * 7, True),
        (["generator-bound"] * 3 + ["server-bound"] * 4, True),
        (["neither"] * 4 + ["server-bound"] * 3, False),
        (["neither"] * 3 + ["server-bound"] * 4, True),
        (["noisy"] * 6 + ["server-bound"], True),
        (["noisy"] * 7, False),
    ],
)
def test_latencies_at_saturation_are_marked(
    race: Race, verdicts: list[Verdict], is_saturated: bool
) -> None:
    found = result(race, "pipelining")
    figure = found.figures["single-wrk", "uwsgi"]
    trials = [
        msgspec.structs.replace(each, verdict=verdict)
        for each, verdict in zip(figure.trials, verdicts, strict=True)
    ]
    one = replace(figure, trials=trials)
    assert one.is_saturated is is_saturated
    alone = replace(found, figures={("single-wrk", "uwsgi"): one})
    league = table.league(alone, "single-wrk")
    cells = [league.lines[0].cells[league.columns.index(rank)] for rank in ("p50", "p99", "max")]
    assert [each.text.endswith(" †") for each in cells] == [is_saturated] * 3
    assert cells[0].value == one.latency_us["p50"]
    assert (table.SATURATION in league.note) is is_saturated
    [group] = alone.groups
    titles = {each.key: each.title for each in charts.of_group(alone, group, {"uwsgi": "c0"})}
    start = "Latency at saturation" if is_saturated else "Latency"
    assert titles["latency"] == f"{start}: p50, p99, maximum"
    for text in (
        markdown.render(replace(race, results=[alone]), {}),
        render(replace(race, results=[alone]), b""),
    ):
        assert (" †" in text and table.SATURATION in text) is is_saturated


def test_charts_over_levels_say_whether_latencies_are_at_saturation(race: Race) -> None:
    found = result(race, "wsgi")
    [group] = found.groups
    colours = svg.classes(found.contestants)
    titles = {each.key: each.title for each in charts.of_group(found, group, colours)}
    assert (titles["p50"], titles["p99"]) == (
        "Latency at saturation, p50",
        "Latency at saturation, p99",
    )
    figures = {
        key: replace(
            each, trials=[msgspec.structs.replace(t, verdict="neither") for t in each.trials]
        )
        if key[1] == "bjoern"
        else each
        for key, each in found.figures.items()
    }
    mixed = replace(found, figures=figures)
    titles = {each.key: each.title for each in charts.of_group(mixed, group, colours)}
    assert titles["p99"] == "Latency, partly at saturation, p99"
    _, (caption, latency), *_ = level_tables.over_levels(mixed, group)
    assert caption == "Latency (p50)" and latency.note == table.SATURATION
    texts = {line.name: line.cells[1].text for line in latency.lines}
    assert texts["ceiling"].endswith(" ms †") or texts["ceiling"].endswith(" µs †")
    assert "†" not in texts["bjoern"]
