"""What the tables say about a figure: connections served, latencies in doubt, ranges, costs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from bolide.lab.plan import study
from bolide.lab.record import service
from bolide.lab.record.schema import Failure, Published, Served, ServerUse, Study
from bolide.lab.report import document_tables, markdown, quantity, table
from bolide.lab.report.csv_export import csv
from bolide.lab.report.page import render
from bolide.lab.report.summary import Figure, Race, Result, gather
from lab import sample_race

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def race() -> Race:
    return gather(sample_race.records())


def result(race: Race, name: str) -> Result:
    return next(each for each in race.results if each.study.name == name)


def trials_of(found: Result, workload: str, contestant: str, **more: object) -> Result:
    """Return the study with other trials of one contestant."""
    figure = found.figures[workload, contestant]
    trials = [msgspec.structs.replace(each, **more) for each in figure.trials]
    return replace(
        found, figures=found.figures | {(workload, contestant): replace(figure, trials=trials)}
    )


def cell_of(found: Result, workload: str, contestant: str, column: str) -> table.Cell:
    shown = table.league(found, workload)
    [line] = [each for each in shown.lines if each.name == contestant]
    return line.cells[shown.columns.index(column)]


def test_a_few_connections_that_were_served_have_no_figure(race: Race) -> None:
    """Also in a record that calls it valid, because it is from before this was detected."""
    few = trials_of(
        result(race, "pipelining"),
        "single-wrk",
        "uwsgi",
        requests_per_s=51_032.0,
        latency_us={"mean": 96.0, "p50": 78.0, "p99": 200.0, "max": 900.0},
    )
    figure = few.figures["single-wrk", "uwsgi"]
    assert (figure.rate, figure.verdict, figure.absence) == (None, "errors", "no figure")
    why = "rate times mean latency is 4.9: about 5 of 100 connections were served"
    assert figure.reasons[0] == why
    rate = cell_of(few, "single-wrk", "uwsgi", "requests/s")
    assert (rate.text, rate.title) == ("no figure", why)
    served = cell_of(few, "single-wrk", "uwsgi", "served")
    assert (served.text, served.kind) == ("≈5 in flight", "num bad")
    assert "no figure" in markdown.render(replace(race, results=[few]), {})


def test_a_latency_that_contradicts_the_rate_is_marked(race: Race) -> None:
    found = result(race, "pipelining")
    figure = found.figures["single-wrk", "uvicorn"]
    slow = [
        msgspec.structs.replace(
            each, latency_us={k: (v or 0) * 1.6 for k, v in (each.latency_us or {}).items()}
        )
        for each in figure.trials
    ]
    figures = found.figures | {("single-wrk", "uvicorn"): replace(figure, trials=slow)}
    doubtful = replace(found, figures=figures)
    cell = cell_of(doubtful, "single-wrk", "uvicorn", "p50")
    assert cell.text.endswith(" *") and cell.kind == "num doubtful"
    assert cell.title.startswith("rate times mean latency is 154, not 100 connections: do not")
    assert not cell_of(doubtful, "single-wrk", "bjoern", "p50").text.endswith("*")
    assert "latency contradicts rate" in doubtful.figures["single-wrk", "uvicorn"].marks
    assert table.LATENCY_DOUBT in table.league(doubtful, "single-wrk").note
    assert table.LATENCY_DOUBT not in table.league(found, "single-wrk").note


def test_connections_that_were_counted(race: Race) -> None:
    def served(starved: int, fairness: float) -> Served:
        connections = 100 - starved
        return Served(
            connections=connections, starved=starved, min=40, median=50, max=60, fairness=fairness
        )

    found = result(race, "pipelining")
    even = trials_of(found, "single-wrk", "bjoern", served=served(0, 0.99))
    cell = cell_of(even, "single-wrk", "bjoern", "served")
    assert (cell.text, cell.under, cell.kind) == ("100 of 100", "40…60 each", "num")
    some = trials_of(found, "single-wrk", "bjoern", served=served(3, 0.95))
    cell = cell_of(some, "single-wrk", "bjoern", "served")
    assert (cell.text, cell.kind) == ("97 of 100", "num bad")
    assert cell.title == "3 of 100 connections got no correct response"
    unopened = Served(connections=97, starved=0, min=40, median=50, max=60, fairness=0.99)
    cell = cell_of(
        trials_of(found, "single-wrk", "bjoern", served=unopened), "single-wrk", "bjoern", "served"
    )
    assert (cell.text, cell.under, cell.kind) == ("97 of 100", "0…60 each", "num bad")
    uneven = trials_of(found, "single-wrk", "bjoern", served=served(0, 0.5))
    assert cell_of(uneven, "single-wrk", "bjoern", "served").title.startswith("connections were")
    none = trials_of(found, "single-wrk", "bjoern", served=served(95, 0.05))
    assert cell_of(none, "single-wrk", "bjoern", "requests/s").text == "no figure"
    assert cell_of(none, "single-wrk", "bjoern", "served").text == "5 of 100"


def test_what_a_million_requests_cost(race: Race) -> None:
    found = result(race, "pipelining")
    figure = found.figures["single-wrk", "bjoern"]
    assert "J/million" not in table.league(found, "single-wrk").columns  # no kernel showed it
    cpu = figure.cpu_us_per_request
    assert cpu is not None
    cell = cell_of(found, "single-wrk", "bjoern", "CPU s/million")
    assert cell.text == f"{quantity.short(cpu.middle)} s" and 8 < cpu.middle < 10
    number = replace(
        figure, workload=msgspec.structs.replace(figure.workload, requests_total=700_000)
    )
    exact = number.cpu_us_per_request  # 4.9 s of the server, for all of its responses
    assert exact is not None
    assert exact.middle == pytest.approx(4.9e6 / sorted(t.ok or 0 for t in figure.trials)[3])
    metered = [
        msgspec.structs.replace(each, energy_j=(each.ok or 0) * 2.5e-5) for each in figure.trials
    ]
    figures = found.figures | {("single-wrk", "bjoern"): replace(figure, trials=metered)}
    shown = replace(found, figures=figures)
    assert cell_of(shown, "single-wrk", "bjoern", "J/million").text == "25 J"
    assert cell_of(shown, "single-wrk", "uvicorn", "J/million").text == "–"
    heads, *lines = csv(replace(race, results=[shown])).splitlines()
    [line] = [each for each in lines if each.startswith("pipelining,single-wrk,bjoern,")]
    values = dict(zip(heads.split(","), line.split(","), strict=True))
    assert float(values["energy_uj_per_request"]) == pytest.approx(25)
    assert float(values["coverage"]) == pytest.approx(0.984375)


def test_a_share_above_the_ceiling_is_explained_where_it_appears(race: Race) -> None:
    found = result(race, "pipelining")
    figure = found.figures["single-wrk", "bjoern"]
    fast = trials_of(found, "single-wrk", "bjoern", requests_per_s=180e3, latency_us=None)
    assert found.of_ceiling(figure) is not None
    cell = cell_of(fast, "single-wrk", "bjoern", "of ceiling")
    assert cell.text == "110 %" and table.ABOVE_CEILING in cell.title
    assert table.ABOVE_CEILING in table.league(fast, "single-wrk").note
    assert table.ABOVE_CEILING not in table.league(found, "single-wrk").note


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        (3, "Below each rate: range of 3 rounds (has the true median in 75 % of races)."),
        (5, "Below each rate: range of 5 rounds (has the true median in 94 % of races)."),
        (7, "Below each rate: exact 98.4 % interval."),
        (9, "Below each rate: exact 96 % interval."),
    ],
)
def test_a_range_is_not_called_an_interval(rounds: int, said: str) -> None:
    race = gather(sample_race.records(rounds=rounds))
    assert said in table.league(result(race, "pipelining"), "single-wrk").note
    for text in (markdown.render(race, {}), render(race, b"")):
        assert said in text and "95 % interval" not in text
    alone = gather(sample_race.records(rounds=1))
    assert "Below each rate" not in table.league(result(alone, "pipelining"), "single-wrk").note


def test_rounds_that_were_added_are_named() -> None:
    records = sample_race.records(rounds=9)
    planned = [
        msgspec.structs.replace(each, rounds=rounds) if isinstance(each, Study) else each
        for rounds in (7, 9)
        for each in records
    ]
    added, whole = gather(planned[: len(records)]), gather(planned[len(records) :])
    assert table.ROUNDS_ADDED in table.league(result(added, "pipelining"), "single-wrk").note
    assert table.ROUNDS_ADDED not in table.league(result(whole, "pipelining"), "single-wrk").note


def test_a_share_above_the_ceiling_is_explained_below_the_documents_table(race: Race) -> None:
    for name, workload, contestant in (
        ("pipelining", "pipelined-wrk", "japronto"),
        ("aiohttp-uvloop", "threads100-wrk", "aiohttp-app"),
    ):
        found = result(race, name)
        assert {each.note for _, each in document_tables.tables(found)} == {""}
        fast = trials_of(found, workload, contestant, requests_per_s=5e6, latency_us=None)
        (_, shown), *_ = document_tables.tables(fast)
        assert shown.note == table.ABOVE_CEILING
        assert table.ABOVE_CEILING in markdown.table(shown)


def test_a_noisy_figure_is_marked_in_every_table(race: Race) -> None:
    found = trials_of(result(race, "pipelining"), "pipelined-wrk", "japronto", verdict="noisy")
    assert cell_of(found, "pipelined-wrk", "japronto", "requests/s").under.endswith(", noisy")
    (_, shown), *_ = document_tables.tables(found)
    assert [line.cells[2].under for line in shown.lines] == ["noisy", "", "", ""]
    loops = result(race, "aiohttp-uvloop")
    noisy = trials_of(loops, "threads100-wrk", "aiohttp-app", verdict="noisy")
    (_, shown), *_ = document_tables.tables(noisy)
    assert [line.cells[1].under.startswith("noisy, ") for line in shown.lines] == [False, True]


def test_half_of_the_rounds_without_a_figure_leave_none(race: Race) -> None:
    """Otherwise a row would show a rate next to its failure."""
    found = result(race, "pipelining")
    figure = found.figures["single-wrk", "bjoern"]

    def failing(number: int) -> Figure:
        lost = Failure("hang", "wrk has not ended after 38 s")
        trials = [
            msgspec.structs.replace(each, is_valid=False, failure=lost, verdict="failed")
            for each in figure.trials[:number]
        ]
        return replace(figure, trials=[*trials, *figure.trials[number:]])

    assert failing(3).rate is not None and failing(3).marks == ["3 of 7 rounds failed"]
    most = failing(4)
    assert (most.rate, most.verdict, most.marks) == (None, "failed", [])
    assert most.reasons[0] == "hang: wrk has not ended after 38 s"


@pytest.mark.parametrize(
    ("latency_ms", "why"),
    [
        (
            5.0,
            "the rate times the latency of 5 ms is 16 requests in flight, not 2,000: one of the two"
            " is wrong",
        ),
        (204.0, ""),
        (None, ""),
    ],
)
def test_an_impossible_published_figure_is_struck_out(
    race: Race, latency_ms: float | None, why: str
) -> None:
    found = result(race, "python-common")
    published = Published(
        contestant="aiohttp-app", workload="c2000-ab", requests_per_s=3289.0, latency_ms=latency_ms
    )
    study = msgspec.structs.replace(found.study, published=(published,))
    (_, shown), *_ = document_tables.tables(replace(found, study=study))
    cell = shown.lines[0].cells[1]
    assert (cell.kind, cell.title) == (("num struck", why) if why else ("num", ""))
    assert ("here/published" in shown.columns) == (not why)
    [*said] = document_tables.sentences(replace(found, study=study))
    assert [heading for heading, _ in said] == ["Invalid published figures"] * bool(why)


def test_which_published_figures_are_impossible() -> None:
    """All that ship: one reports the latency of 1 % of its connections."""
    found = []
    for name in study.names():
        plan = study.load(name).study
        workloads = {each.name: each for each in plan.workloads}
        for each in plan.published:
            if not each.does_not_hold and service.impossible(each, workloads[each.workload]):
                found.append((name, each.contestant, each.workload))
    assert found == [("python-common", "http-server", "c2000-ab")]


def test_context_switches_are_those_while_responses_were_counted(race: Race) -> None:
    figure = next(each for each in result(race, "pipelining").figures.values() if each.valid)
    assert figure.workload.requests_total is None
    model = msgspec.structs.replace(figure.valid[0], ok=1000, seconds=2.0)
    for cpu_s, expected in ((2.0, 4.0), (4.0, 2.0), (1.0, 4.0)):
        use = ServerUse(cpu_s=cpu_s, cpu_share=1.0, context_switches=4000)
        trials = [msgspec.structs.replace(model, server=use)]
        assert replace(figure, trials=trials).switches_per_request == pytest.approx(expected)
