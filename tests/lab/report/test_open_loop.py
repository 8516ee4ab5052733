"""The open loop in a report: curves of latency against rate, and the results of searches."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from bolide.lab.plan import open_loop as parts
from bolide.lab.plan.open_loop import OpenLoop
from bolide.lab.record.schema import Failure, GeneratorUse, Record, ServerUse, Trial
from bolide.lab.report import charts, markdown, open_loop
from bolide.lab.report.csv_export import csv
from bolide.lab.report.drawing import svg
from bolide.lab.report.summary import Figure, Race, Result, gather
from bolide.lab.report.terminal import of_open_loop
from lab import sample_race

BASE = sample_race.workload("kept-bolide", "bolide", 100)
TABLE = OpenLoop(of=BASE.name, shares=(0.5, 0.9))
MAXIMA = {"bolide-wsgi": 100_000.0, "uwsgi": 10_000.0}


def trial(load: str, name: str, rate: float, offered: float | None, **more: Any) -> Trial:
    fields: dict[str, Any] = {
        "study": "open",
        "workload": load,
        "contestant": name,
        "round": 1,
        "tool": "bolide",
        "tool_version": "1",
        "command": [],
        "started_at": "2026-11-21T14:00:05Z",
        "seconds": 3.0,
        "is_valid": True,
        "ok": int(rate * 3),
        "failed": 0,
        "requests_per_s": rate,
        "offered_per_s": offered,
        "latency_us": {"p50": 100.0, "p99": 1e6 / rate, "max": 9e5},
        "verdict": "neither",
    }
    return Trial(**(fields | more))


@pytest.fixture
def result() -> Result:
    loads = [BASE, *parts.workloads(TABLE, BASE)]
    records: list[Record] = [*sample_race.contestants(), sample_race.study("open", "Open", loads)]
    for name, most in MAXIMA.items():
        records.append(trial(BASE.name, name, most, None))
        for load in loads[1:]:
            if not load.finds:
                offered = (load.rate_share or 0) * (most if load.rate_of == "own" else 10_000.0)
                is_served = name != "uwsgi" or load.rate_share == 0.5
                records.append(
                    trial(load.name, name, offered if is_served else offered * 0.8, offered)
                )
    said = ["the server met p99 < 10ms up to this rate"]
    records.append(trial("find-bolide", "bolide-wsgi", 90_000.0, 5e4, evidence=said))
    [found] = gather(records).results
    return found


def test_a_curve_has_a_point_for_each_rate(result: Result) -> None:
    curves = {each.contestant.name: each.points for each in open_loop.curves(result, "own")}
    assert [(each.share, each.offered_per_s) for each in curves["bolide-wsgi"]] == [
        (0.5, 50_000.0),
        (0.9, 90_000.0),
    ]
    assert [each.is_served for each in curves["uwsgi"]] == [True, False]
    assert curves["uwsgi"][0].latency_us["p99"] == 200.0
    common = {each.contestant.name: each.points for each in open_loop.curves(result, "common")}
    assert {each.offered_per_s for each in common["bolide-wsgi"]} == {5_000.0, 9_000.0}


def _rounds(result: Result, key: tuple[str, str], rates: list[float]) -> Result:
    """Return the result with these rounds of a figure, each with its own p99."""
    figure = result.open_loop[key]
    trials = [
        msgspec.structs.replace(
            figure.trials[0],
            round=number,
            requests_per_s=rate,
            latency_us={"p50": 100.0, "p99": 1000.0 * number, "max": 9e5},
            histogram=[(1000.0 * number, 1000)],
        )
        for number, rate in enumerate(rates, 1)
    ]
    found = result.open_loop | {key: replace(figure, trials=trials)}
    return replace(result, open_loop=found)


def test_latencies_of_a_rate_are_those_of_the_rounds_in_which_it_was_served(result: Result) -> None:
    key = ("open-own50-bolide", "bolide-wsgi")
    found = _rounds(result, key, [50_000.0, 49_600.0, 44_800.0])
    [curve] = [c for c in open_loop.curves(found, "own") if c.contestant.name == key[1]]
    point = curve.points[0]
    assert point.is_served and point.lost == 1
    assert (point.latency_us["p99"] or 0) < 2100
    assert point.p99_us and (point.p99_us.low, point.p99_us.high) == (1000.0, 2000.0)
    rows = {line.name: line.cells for line in open_loop.tables(found)[0][1].lines}
    assert rows[key[1]][1].under == "50,000/s, 1 ms to 2 ms"
    assert rows[key[1]][1].title.endswith("; 1 round was not served")
    mostly = _rounds(result, key, [50_000.0, 44_600.0, 44_800.0])
    rows = {line.name: line.cells for line in open_loop.tables(mostly)[0][1].lines}
    assert (rows[key[1]][1].text, rows[key[1]][1].value) == ("90 % served", None)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("neither", "the generator was the limit of p99 < 10ms: the server may do more"),
        ("server-bound", "the generator was the limit of p99 < 10ms: the server may do more"),
        ("noisy", "other work on these processors, so the server may do more"),
    ],
)
def test_what_ended_a_search_is_what_its_tool_says_if_the_machine_was_quiet(
    verdict: str, said: str, result: Result
) -> None:
    """The processor time of a search is also that of rates that failed."""
    key = ("find-bolide", "bolide-wsgi")
    figure = result.open_loop[key]
    own = ["the generator was the limit of p99 < 10ms: the server may do more"]
    trials = [
        msgspec.structs.replace(each, verdict=verdict, evidence=own) for each in figure.trials
    ]
    found = result.open_loop | {key: replace(figure, trials=trials)}
    last = open_loop.tables(replace(result, open_loop=found))[-1][1]
    assert last.lines[0].cells[2].text == said


def test_rates_that_were_offered_are_no_result(result: Result) -> None:
    assert {workload for workload, _ in result.figures} == {BASE.name}
    assert [each.workloads for each in result.groups] == [[BASE]]


def test_the_tables(result: Result) -> None:
    (own, first), (_, common), (search, last) = open_loop.tables(result)
    assert own.endswith("at shares of each contestant's own maximum")
    assert first.columns == ["contestant", "50 %", "90 %"]
    rows = {line.name: line.cells for line in first.lines}
    assert [cell.under for cell in rows["bolide-wsgi"][1:]] == ["50,000/s", "90,000/s"]
    assert rows["uwsgi"][2].text == "80 % served"
    assert rows["uwsgi"][2].value is None
    assert len(common.lines) == 2
    assert search == "Highest rate with p99 < 10ms"
    assert [cell.text for cell in last.lines[0].cells] == [
        "Bolide (WSGI)",
        "90,000",
        "the server met p99 < 10ms up to this rate",
    ]


def test_what_the_generator_did_not_send_is_not_the_servers_fault(result: Result) -> None:
    key = ("open-own90-bolide", "uwsgi")
    figure = result.open_loop[key]
    busy = [msgspec.structs.replace(each, verdict="generator-bound") for each in figure.trials]
    result.open_loop[key] = Figure(figure.workload, figure.contestant, busy)
    rows = {line.name: line.cells for line in open_loop.tables(result)[0][1].lines}
    assert (rows["uwsgi"][2].text, rows["uwsgi"][2].kind) == ("80 % sent", "num quiet")


def _with_noise(result: Result, key: tuple[str, str]) -> Result:
    """Return the result with a noisy trial of one figure of the open loop."""
    figure = result.open_loop[key]
    noisy = [msgspec.structs.replace(each, verdict="noisy") for each in figure.trials]
    found = result.open_loop | {key: Figure(figure.workload, figure.contestant, noisy)}
    return replace(result, open_loop=found)


def test_noise_is_marked_where_a_latency_is_read(result: Result) -> None:
    noisy = _with_noise(result, ("open-common90-bolide", "bolide-wsgi"))
    noisy = _with_noise(noisy, ("open-common90-bolide", "uwsgi"))
    noisy = _with_noise(noisy, ("find-bolide", "bolide-wsgi"))
    (_, own), (_, common), (_, last) = open_loop.tables(noisy)
    rows = {line.name: [cell.under for cell in line.cells[1:]] for line in common.lines}
    assert rows == {
        "bolide-wsgi": ["5,000/s", "9,000/s, noisy"],
        "uwsgi": ["5,000/s", "9,000/s, noisy"],
    }
    assert "noisy" not in str(own)
    assert last.lines[0].cells[1].under == "noisy"
    assert "9,000/s, noisy" in markdown.render(Race(None, [], [noisy]), {})
    out = io.StringIO()
    for each in of_open_loop(noisy):
        Console(file=out, width=120).print(each)
    assert "9,000/s, noisy" in out.getvalue()


def test_latencies_of_the_open_loop_are_not_at_saturation(result: Result) -> None:
    for key, figure in result.open_loop.items():
        busy = [msgspec.structs.replace(each, verdict="server-bound") for each in figure.trials]
        result.open_loop[key] = Figure(figure.workload, figure.contestant, busy)
        assert not result.open_loop[key].is_saturated
    assert "†" not in str(open_loop.tables(result))
    closed = result.figures[BASE.name, "uwsgi"]
    busy = [msgspec.structs.replace(each, verdict="server-bound") for each in closed.trials]
    assert Figure(closed.workload, closed.contestant, busy).is_saturated


def test_noisy_points_of_the_picture_are_hollow(result: Result) -> None:
    colours = svg.classes([*result.contestants])
    noisy = _with_noise(result, ("open-common90-bolide", "bolide-wsgi"))
    quiet, shown = (charts.opening(each, colours)[0] for each in (result, noisy))
    assert shown.title == "Latency (p99) against the offered rate"
    for drawn in (shown.wide, shown.narrow):
        assert drawn.count(' hollow"') == drawn.count("hollow dots: noisy") == 1
    assert "hollow" not in quiet.wide


def test_noise_of_the_open_loop_is_in_the_warning_of_the_race(result: Result) -> None:
    race = Race(None, [], [result])
    assert race.warning == ""
    for key in [*result.open_loop][:3]:
        race.results[0] = _with_noise(race.results[0], key)
    said = "3 of 11 trials were noisy: other work took processor time."
    assert race.warning == f"{said} The rows that are marked noisy are not reliable."


def test_a_search_on_a_busy_machine_names_no_limit(result: Result) -> None:
    [(key, figure)] = [each for each in result.open_loop.items() if each[0][0] == "find-bolide"]
    noisy = [msgspec.structs.replace(each, verdict="noisy") for each in figure.trials]
    result.open_loop[key] = Figure(figure.workload, figure.contestant, noisy)
    [line] = open_loop.tables(result)[-1][1].lines
    assert line.cells[2].text == "other work on these processors, so the server may do more"


def test_a_search_without_a_result_has_its_reason(result: Result) -> None:
    [(key, figure)] = [each for each in result.open_loop.items() if each[0][0] == "find-bolide"]
    failure = Failure("tool", "no rate meets p99 < 10ms; the lowest tried is 1/s")
    lost = [
        msgspec.structs.replace(
            each, is_valid=False, failure=failure, ok=None, requests_per_s=None, verdict="failed"
        )
        for each in figure.trials
    ]
    result.open_loop[key] = Figure(figure.workload, figure.contestant, lost)
    [line] = open_loop.tables(result)[-1][1].lines
    assert [cell.text for cell in line.cells[1:]] == ["failed", f"tool: {failure.message}"]


def test_every_output_has_it(result: Result) -> None:
    race = gather([])
    race.results.append(result)
    page = markdown.render(race, {})
    assert "### Latency at given rates" in page and "80 % served" in page
    assert "open,find-bolide,bolide-wsgi,90000," in csv(race)
    out = io.StringIO()
    for each in of_open_loop(result):
        Console(file=out, width=120).print(each)
    assert "80 % served" in out.getvalue()


def test_what_a_whole_search_used_is_not_that_of_its_rate(result: Result) -> None:
    """It was measured over a dozen rates, and the responses are those of one."""
    used: dict[str, Any] = {
        "energy_j": 6000.0,
        "server": ServerUse(cpu_s=30.0, cpu_share=1.0, rss_bytes_max=5000, context_switches=90_000),
        "generator": GeneratorUse(cpu_share=0.5, rss_bytes_max=4000, context_switches=90_000),
    }
    for key, figure in result.open_loop.items():
        trials = [msgspec.structs.replace(each, **used) for each in figure.trials]
        result.open_loop[key] = Figure(figure.workload, figure.contestant, trials)
    race = gather([])
    race.results.append(result)
    heads, *lines = (line.split(",") for line in csv(race).splitlines())
    rows = {(line[1], line[2]): dict(zip(heads, line, strict=True)) for line in lines}
    search, half = rows["find-bolide", "bolide-wsgi"], rows["open-own50-bolide", "bolide-wsgi"]
    empty = {name for name in heads if half[name] and not search[name]}
    assert empty == {
        "cpu_us_per_request",
        "energy_uj_per_request",
        "memory_bytes",
        "server_cpu_share",
        "server_switches_per_request",
        "generator_cpu_share",
        "generator_memory_bytes",
        "generator_switches_per_request",
    }
    assert (search["requests_per_s"], half["energy_uj_per_request"]) == ("90000", "40000")


def test_a_study_without_it_has_no_table() -> None:
    for result in gather(sample_race.records(rounds=1)).results:
        assert open_loop.tables(result) == []
        assert of_open_loop(result) == []
