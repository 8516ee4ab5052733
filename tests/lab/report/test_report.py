"""The report of a race that nobody ran: figures, tables, the page's text, Markdown, pictures."""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab.record.schema import Failure, Record, Trial
from bolide.lab.report import (
    document_tables,
    level_tables,
    markdown,
    quantity,
    summary,
    table,
    writing,
)
from bolide.lab.report.csv_export import csv
from bolide.lab.report.drawing import axis, svg
from bolide.lab.report.page import render
from bolide.lab.report.summary import Race, Result, gather
from lab import sample_race

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def race() -> Race:
    return gather(sample_race.records())


def result(race: Race, name: str) -> Result:
    return next(each for each in race.results if each.study.name == name)


def test_records_are_gathered(race: Race) -> None:
    assert [each.study.name for each in race.results] == [
        each.name for each in sample_race.studies()
    ]
    assert [each.name for each in race.absent] == ["swoole"]
    levels = result(race, "wsgi").groups
    assert len(levels) == 1 and len(levels[0].workloads) == 19
    assert levels[0].title == "wrk · 100–10,000 connections"
    quick = [
        msgspec.structs.replace(each, is_quick=each.connections == 100)
        for each in levels[0].workloads
    ]
    study = msgspec.structs.replace(result(race, "wsgi").study, workloads=tuple(quick))
    again = Result(study, result(race, "wsgi").figures)
    assert [len(group.workloads) for group in again.groups] == [19]
    titles = [group.title for group in result(race, "pipelining").groups]
    assert titles == ["wrk · 100 connections · 24 deep", "wrk · 100 connections"]


def test_a_round_that_was_repeated_counts_once() -> None:
    records = sample_race.records(rounds=2)
    again = [
        msgspec.structs.replace(each, requests_per_s=7.0, latency_us=None)
        for each in records
        if isinstance(each, Trial) and each.round == 1
    ]
    found = result(gather([*records, *again]), "php").figures["kept-ab", "bjoern"]
    assert [each.round for each in found.trials] == [0, 1]
    assert found.by_round[1] == 7.0 and found.by_round[0] != 7.0


def test_a_figure_is_the_median_of_its_rounds(race: Race) -> None:
    figure = result(race, "pipelining").figures["single-wrk", "japronto"]
    rounds = sorted(figure.by_round.values())
    assert figure.rate is not None
    assert figure.rate.middle == rounds[3]
    assert (figure.rate.low, figure.rate.high) == (rounds[0], rounds[-1])
    assert figure.rate.label == "98.4 % interval"
    assert figure.verdict == "server-bound" and figure.marks == []
    of = result(race, "pipelining").of_ceiling(figure)
    assert of is not None and 0.85 < of.middle < 0.95


def test_percentiles_come_from_merged_histograms(race: Race) -> None:
    figure = result(race, "pipelining").figures["single-wrk", "uwsgi"]
    singles = [(each.latency_us or {})["p99"] for each in figure.trials]
    merged = figure.latency_us["p99"]
    assert merged is not None
    uppers = {upper for each in figure.trials for upper, _ in each.histogram or []}
    assert merged in uppers and merged not in singles
    assert figure.marks == ["unstable"]
    # The tool does not report p99.9, though its histograms have rows above it.
    assert figure.latency_us.get("p99_9") is None


def test_a_merged_percentile_is_at_most_the_maximum(race: Race) -> None:
    """The middle of a bucket may be above the largest latency in it."""
    figure = result(race, "pipelining").figures["single-wrk", "uwsgi"]
    latency = {"p50": 100.0, "p99": 100.0, "p99_9": 1007.0, "max": 1007.0}
    rows = [(100.0, 999), (1008.0, 1)]
    trials = [
        msgspec.structs.replace(each, latency_us=latency | {"max": most}, histogram=rows)
        for each, most in zip(figure.trials[:2], (1005.0, 1007.0), strict=True)
    ]
    found = summary.Figure(figure.workload, figure.contestant, trials).latency_us
    assert found == {"p50": 100.0, "p99": 100.0, "p99_9": 100.0, "max": 1007.0}
    for each in trials:
        each.histogram[:] = [(100.0, 990), (1008.0, 10)]
    found = summary.Figure(figure.workload, figure.contestant, trials).latency_us
    assert (found["p99"], found["p99_9"]) == (100.0, 1007.0)


def test_a_failed_trial_is_never_a_number(race: Race) -> None:
    figure = result(race, "wsgi").figures["c10000-wrk", "gunicorn-gthread"]
    assert (figure.rate, figure.latency_us, figure.memory_bytes, figure.failed) == (
        None,
        {},
        None,
        None,
    )
    assert figure.verdict == "failed"
    line = table.league(result(race, "wsgi"), "c10000-wrk").lines[-1]
    assert [cell.text for cell in line.cells] == [
        "Gunicorn (gthread)",
        "failed",
        *["–"] * 8,
        "failed",
    ]
    assert line.cells[1].under == "timeout: no response within 5 s"


def test_a_page_of_errors_has_no_rate() -> None:
    records = sample_race.records(rounds=2)
    for place, each in enumerate(records):
        if isinstance(each, Trial) and each.contestant == "bjoern":
            fields = {name: getattr(each, name) for name in each.__struct_fields__}
            failure = Failure("wrong_status", "500")
            fields |= {"ok": 0, "requests_per_s": 0.0, "is_valid": True, "failure": failure}
            records[place] = Trial(**fields)
    figure = result(gather(records), "php").figures["kept-ab", "bjoern"]
    assert figure.rate is None and figure.verdict == "failed"


@pytest.mark.parametrize("verdict", ["generator-bound", "server-bound"])
def test_a_ceiling_that_is_the_tools_is_reported(verdict: str) -> None:
    records = [
        msgspec.structs.replace(each, verdict=verdict)
        if isinstance(each, Trial) and each.contestant == "ceiling"
        else each
        for each in sample_race.records(rounds=2)
    ]
    race = gather(records)
    note = table.league(result(race, "pipelining"), "single-wrk").note
    assert note.startswith("The tool limited the ceiling") == (verdict == "generator-bound")
    for text in (markdown.render(race, {}), render(race, b"")):
        assert ("The tool limited the ceiling" in text) == (verdict == "generator-bound")


def test_the_league_has_the_fastest_first(race: Race) -> None:
    found = table.league(result(race, "pipelining"), "single-wrk")
    names = [line.name for line in found.lines]
    assert names[:3] == ["ceiling", "bolide-native", "japronto"]
    assert [line.kind for line in found.lines[:3]] == ["ceiling", "ours", "other"]
    rates = [line.cells[1].value or 0 for line in found.lines]
    assert rates == sorted(rates, reverse=True)
    assert all(len(line.cells) == len(found.columns) for line in found.lines)


def test_the_documents_table_strikes_what_does_not_hold(race: Race) -> None:
    (_, found), *_ = document_tables.tables(result(race, "python-common"))
    assert found.columns == [
        "contestant",
        "c2000-ab: published",
        "c2000-ab: here",
        "here/published",
        "of ceiling",
    ]
    first, second = found.lines[:2]
    assert (first.name, first.cells[1].text, first.cells[1].kind) == (
        "uwsgi",
        "14,485 *",
        "num struck",
    )
    assert first.cells[3].text == "–"
    assert (second.name, second.cells[1].text) == ("aiohttp-app", "3,435")
    assert [line.name for line in found.lines[2:]] == [
        "bolide-native",
        "bolide-asgi",
        "bolide-wsgi",
    ]
    (objection, title), *_ = document_tables.objections(result(race, "python-common"))
    assert title == "uWSGI (5 processes)" and "Non-2xx" in objection.does_not_hold


def test_latencies_are_below_rates(race: Race) -> None:
    (_, found), *_ = document_tables.tables(result(race, "python-common"))
    struck, published, ours = found.lines[:3]
    assert [cell.under for cell in struck.cells[:2]] == ["", "–"]
    figure = result(race, "python-common").figures["c2000-ab", "aiohttp-app"]
    mean = figure.latency_us["mean"]
    assert mean is not None
    assert [cell.under for cell in published.cells] == [
        "",
        "204 ms",
        f"{quantity.time_us(mean)} †",
        quantity.times(mean / 204e3),
        "",
    ]
    assert ours.cells[1].text == "–" and ours.cells[2].under.endswith(" ms †")
    assert table.SATURATION in found.note
    figure.__dict__["latency_us"] = {"p50": 102e3}
    (_, found), *_ = document_tables.tables(result(race, "python-common"))
    assert [cell.under for cell in found.lines[1].cells[2:4]] == ["p50 102 ms †", "0.50×"]
    figure.__dict__["latency_us"] = {}
    (_, found), *_ = document_tables.tables(result(race, "python-common"))
    assert [cell.under for cell in found.lines[1].cells[2:4]] == ["–", "–"]
    del figure.__dict__["latency_us"]


def test_what_was_not_run_has_no_table() -> None:
    records = [
        each
        for each in sample_race.records(rounds=1)
        if not (isinstance(each, Trial) and each.workload == "kept-ab")
    ]
    assert document_tables.tables(result(gather(records), "php")) == []


def test_the_table_of_loops(race: Race) -> None:
    (caption, found), (other, alike) = document_tables.tables(result(race, "aiohttp-uvloop"))
    assert caption == "threads100-wrk"
    assert other == "threads2-wrk, a similar load: nothing is published for it"
    assert found.columns == ["", "aiohttp + Application", "asyncio + httptools"]
    assert [line.cells[0].text for line in found.lines] == ["uvloop", "asyncio"]
    assert found.lines[0].cells[1].under.startswith("published 10,265, 0.8")
    assert "published" not in alike.lines[0].cells[1].under
    assert "of the ceiling" in alike.lines[0].cells[1].under
    assert alike.lines[0].cells[1].value != found.lines[0].cells[1].value


def test_a_contestant_says_itself_on_which_loop_it_runs() -> None:
    written = msgspec.json.encode(sample_race.records(rounds=1))
    renamed = written.replace(b'"aiohttp-app-uvloop"', b'"quick-aiohttp"')
    found = gather(msgspec.json.decode(renamed, type=list[Record]))
    (_, first), _ = document_tables.tables(result(found, "aiohttp-uvloop"))
    assert first.columns == ["", "aiohttp + Application", "asyncio + httptools"]
    assert all(cell.value for line in first.lines for cell in line.cells[1:])


def test_many_levels_have_six_tables(race: Race) -> None:
    (group,) = result(race, "wsgi").groups
    found = level_tables.over_levels(result(race, "wsgi"), group)
    assert [caption for caption, _ in found] == list(level_tables.BLOCKS)
    assert [len(each.columns) for _, each in found] == [20] * 6
    assert [line.name for line in found[0][1].lines] == [
        "ceiling",
        "bolide-wsgi",
        "bjoern",
        "uwsgi",
        "gunicorn-gthread",
    ]
    errors = {line.name: [cell.text for cell in line.cells[1:]] for line in found[5][1].lines}
    assert errors["bjoern"][:9] == ["0"] * 9 and errors["bjoern"][9] != "0"
    assert errors["gunicorn-gthread"][-1] == "–"
    few = result(race, "pipelining").groups[0]
    assert level_tables.over_levels(result(race, "pipelining"), few) == []
    assert level_tables.failures(result(race, "wsgi"), group) == [
        "Gunicorn (gthread) failed at 4,000, 5,000, 6,000, 7,000, 8,000, 10,000 connections:"
        " timeout: no response within 5 s"
    ]


def test_a_published_figure_whose_server_fails_here_is_reported() -> None:
    records = [
        each
        for each in sample_race.records(rounds=1)
        if not (isinstance(each, Trial) and each.contestant == "japronto")
    ]
    assert document_tables.remarks(result(gather(records), "pipelining")) == []
    failing = [
        Trial(
            **{
                **{name: getattr(each, name) for name in each.__struct_fields__},
                "is_valid": False,
                "failure": Failure("start", "its wheel needs CPython 3.7"),
            }
        )
        if isinstance(each, Trial) and each.contestant == "japronto"
        else each
        for each in sample_race.records(rounds=1)
    ]
    (said,) = document_tables.remarks(result(gather(failing), "pipelining"))
    assert said == (
        "Japronto: 1,214,440 requests/s are published for pipelined-wrk; here it has no figure"
        " (start: its wheel needs CPython 3.7)"
    )


def test_each_load_has_its_own_published_figures() -> None:
    found = result(gather(sample_race.records(rounds=1)), "aiohttp-uvloop")
    own = msgspec.structs.replace(
        found.study.published[0], workload="threads2-wrk", requests_per_s=99.0
    )
    study = msgspec.structs.replace(found.study, published=(*found.study.published, own))
    (_, first), (caption, other) = document_tables.tables(replace(found, study=study))
    assert caption == "threads2-wrk"
    assert first.lines[0].cells[1].under.startswith("published 10,265, ")
    assert other.lines[0].cells[1].under.startswith("published 99, ")


def test_ours_are_in_the_documents_table_only_where_they_ran(race: Race) -> None:
    found = result(race, "python-common")
    names = [line.name for line in document_tables.tables(found)[0][1].lines]
    ours = next(name for name in names if name.startswith("bolide-"))
    figures = {key: each for key, each in found.figures.items() if key != ("c2000-ab", ours)}
    [(_, shown)] = document_tables.tables(replace(found, figures=figures))
    assert [line.name for line in shown.lines] == [name for name in names if name != ours]


def test_accept_queues_that_were_full_are_reported_below_the_table(race: Race) -> None:
    found = result(race, "pipelining")
    assert "overflowed" not in table.league(found, "single-wrk").note
    figure = found.figures["single-wrk", "japronto"]
    full = [
        msgspec.structs.replace(
            each, kernel=msgspec.structs.replace(each.kernel, listen_overflows=number)
        )
        for number, each in enumerate(figure.trials, 10)
    ]
    figures = found.figures | {("single-wrk", "japronto"): replace(figure, trials=full)}
    note = table.league(replace(found, figures=figures), "single-wrk").note
    assert note.endswith(f"(overflows per round): Japronto ({9 + (len(full) + 1) // 2}).")


def test_a_load_without_any_of_the_published_figures_is_reported_once() -> None:
    found = result(gather(sample_race.records(rounds=1)), "aiohttp-uvloop")
    for name in dict.fromkeys(each.contestant for each in found.study.published):
        figure = found.figures["threads100-wrk", name]
        failed = [
            msgspec.structs.replace(each, is_valid=False, failure=Failure("late", "its clock"))
            for each in figure.trials
        ]
        found.figures["threads100-wrk", name] = replace(figure, trials=failed)
    (said,) = document_tables.remarks(found)
    count = len(found.study.published)
    assert said.startswith(f"threads100-wrk: none of {count} published figures could be measured")
    assert said.endswith(": late: its clock)")


class Reader(HTMLParser):
    """Collects what a page would fetch, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.references += [
            v or "" for k, v in attributes if k in ("src", "href", "data", "action")
        ]
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_refers_to_nothing_outside(race: Race) -> None:
    raw = b'{"kind":"machine"}\n'
    page = render(race, raw)
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert {each[:5] for each in reader.references if each[0] != "#"} == {"data:"}
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page
    data = re.search(r"data:application/gzip;base64,([^\"]+)", page)
    assert data and gzip.decompress(base64.b64decode(data[1])) == raw


def test_names_are_escaped() -> None:
    records = sample_race.records(rounds=1)
    named = [
        type(each)(
            **{
                **{name: getattr(each, name) for name in each.__struct_fields__},
                "title": '<script>"&',
            }
        )
        if getattr(each, "name", "") == "bjoern"
        else each
        for each in records
    ]
    page = render(gather(named), b"")
    assert '<script>"&' not in page
    assert "&lt;script&gt;&quot;&amp;" in page


def test_charts_are_well_formed(race: Race, tmp_path: Path) -> None:
    writing_folder = sample_race.write(tmp_path / "race", sample_race.records())
    page, text = writing.write(writing_folder, tmp_path / "out")
    assert (page.name, text.name) == ("report.html", "report.md")
    pictures = sorted(each.name for each in (tmp_path / "out").glob("*.svg"))
    assert pictures == [
        "aiohttp-uvloop-threads100-wrk-latency.svg",
        "aiohttp-uvloop-threads100-wrk-rate.svg",
        "aiohttp-uvloop-threads2-wrk-latency.svg",
        "aiohttp-uvloop-threads2-wrk-rate.svg",
        "php-close-webbench-rate.svg",
        "php-kept-ab-latency.svg",
        "php-kept-ab-rate.svg",
        "pipelining-pipelined-wrk-latency.svg",
        "pipelining-pipelined-wrk-rate.svg",
        "pipelining-single-wrk-latency.svg",
        "pipelining-single-wrk-rate.svg",
        "python-common-c2000-ab-latency.svg",
        "python-common-c2000-ab-rate.svg",
        "wsgi-c100-wrk-p99.svg",
        "wsgi-c100-wrk-rate.svg",
    ]
    space = "{http://www.w3.org/2000/svg}"
    for name in pictures:
        root = ElementTree.parse(tmp_path / "out" / name).getroot()  # noqa: S314
        assert root.find(f"{space}style") is not None
        assert (tmp_path / "out" / name).stat().st_size < 60_000
        assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
        assert not [each for each in root.iter() if each.get("data-v")]
        marks = [each for each in root.iter(f"{space}g") if each.get("data-c")]
        assert len(marks) == (5 if name.startswith("wsgi") else 15)
        for each in root.iter():
            for place in ("x", "y", "x1", "x2", "y1", "y2", "width", "height"):
                assert float(each.get(place, "0")) == float(each.get(place, "0"))  # no NaN
        assert f"]({name})" in text.read_text()


def test_colours_are_one_for_each_contestant() -> None:
    found = svg.classes(sample_race.contestants())
    assert len(set(found.values())) == len(found)
    assert (found["ceiling"], found["bolide-asgi"]) == ("ce dashed", "o1")
    assert found["swoole"] == "c1 dashed"  # the twelfth of ten colours
    rules = svg.SHAPES + svg.rules(is_dark=False)
    for each in " ".join(found.values()).split():
        assert f".{each} .stroke" in rules


def test_forty_contestants_are_distinct() -> None:
    (first, *_) = [each for each in sample_race.contestants() if each.name == "bjoern"]
    many = [msgspec.structs.replace(first, name=f"server-{n}") for n in range(40)]
    many += [msgspec.structs.replace(first, name=f"bolide-{n}") for n in range(3)]
    found = svg.classes(many)
    assert len(set(found.values())) == 43
    assert [found[f"server-{n}"] for n in (0, 9, 10, 20, 30)] == [
        "c0",
        "c9",
        "c0 dashed",
        "c0 dotted",
        "c0 broken",
    ]


def test_markdown(race: Race) -> None:
    text = markdown.render(race, {"pipelining": {"one.svg": "Requests per second: wrk"}})
    assert "![Requests per second: wrk](one.svg)" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    widths = {line.count(" | ") for line in rows if line.startswith("| Japronto")}
    assert widths == {10, 6, 4, 3}
    assert re.search(r"^\| Japronto \| [\d.]+ \| `.+` \|", text, re.MULTILINE)
    assert "- Gunicorn (gthread) failed at 4,000, 5,000" in text
    assert "- **uWSGI (5 processes)**, 14,485 requests/s (c2000-ab): all 10,000 responses" in text
    assert "- Swoole: cannot run here. Debian 12 has no package" in text
    assert len(text) < 40_000
    assert "connections:\n" not in text  # no league for each of 19 levels


def test_no_table_is_repeated(race: Race) -> None:
    text = markdown.render(race, {})
    tables = [each for each in text.split("\n\n") if each.startswith("| contestant")]
    assert len(tables) == len(set(tables)) == 7 + 6 + 4 + 1
    page = re.findall(r"<table(?: data-w.*?)?>.*?</table>", render(race, b""), re.DOTALL)
    assert len(page) == len(set(page)) == 7 + 19 + 6 + 6


def test_the_limit_names_what_was_used(race: Race) -> None:
    found = table.league(result(race, "pipelining"), "single-wrk")
    cell = next(line.cells[-1] for line in found.lines if line.name == "uvicorn")
    assert cell.text == "server" and cell.under == ""
    evidence, server, generator = cell.title.split("\n")
    assert evidence == "the server used 98% of a processor"
    assert re.fullmatch(r"server: 0\.00\d+ context switches/request, 98 % of a processor", server)
    assert generator == (
        "generator: 0.5 context switches/request, 60 % of a processor by its busiest thread,"
        " 12 MiB of memory"
    )


def test_csv(race: Race) -> None:
    heads, *lines = csv(race).splitlines()
    assert {line.count(",") for line in lines} == {heads.count(",")}
    failed = next(line for line in lines if line.startswith("wsgi,c10000-wrk,gunicorn-gthread"))
    assert failed == f"wsgi,c10000-wrk,gunicorn-gthread,{',' * 21}failed"
    line = next(line for line in lines if line.startswith("php,kept-ab,uvicorn"))
    values = dict(zip(heads.split(","), line.split(","), strict=True))
    assert (values["server_cpu_share"], values["generator_cpu_share"]) == ("0.98", "0.6")
    assert float(values["generator_switches_per_request"]) == pytest.approx(0.5, rel=0.01)
    assert float(values["server_switches_per_request"]) == pytest.approx(0.007, rel=0.05)
    assert values["generator_memory_bytes"] == str(12 * 2**20)


def test_nothing_measured_is_a_mistake(tmp_path: Path) -> None:
    folder = sample_race.write(
        tmp_path, [sample_race.machine(), *sample_race.contestants(), *sample_race.studies()]
    )
    with pytest.raises(ConfigError, match=r"results.jsonl holds no trial of a study yet"):
        writing.read(folder)
    with pytest.raises(ConfigError, match="cannot read .*: No such file"):
        writing.read(tmp_path / "none")


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0, "0"), (7.25, "7.2"), (950, "950"), (999.99, "1k"), (1234, "1.2k")]
    + [(165_432, "165k"), (999_999, "1M"), (3_900_000, "3.9M")],
)
def test_short_numbers(value: float | None, said: str) -> None:
    assert quantity.short(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0, "0"), (4.3e-7, "< 0.001"), (0.0026, "0.0026"), (0.5, "0.5"), (12, "12")],
)
def test_small_numbers(value: float | None, said: str) -> None:
    assert quantity.small(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (61, "61 µs"), (999.9, "1 ms"), (1234, "1.2 ms"), (3.1e6, "3.1 s")],
)
def test_times(value: float | None, said: str) -> None:
    assert quantity.time_us(value) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [(2**20 * 1.5, "bytes", "1.5 MiB"), (0.025, "share", "2.5 %"), (0.5, "share", "50 %")]
    + [(1500, "time", "1.5 ms"), (1500, "count", "1.5k")],
)
def test_values_of_axes(value: float, unit: str, said: str) -> None:
    assert quantity.of_unit(value, unit) == said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("worked 5.4 s", "worked 5.4 s"),
        ("worked 5.4 seconds", "worked 5.4…"),
        ("it worked 5.4 s", "it worked…"),
        ("timeout 6,989, or so", "timeout…"),
        ("it works: 12 s on 1", "it works…"),
        ("unbreakable_words", "unbreakable…"),
    ],
)
def test_long_texts_end_after_a_word(text: str, shown: str) -> None:
    assert quantity.cut(text, 12) == shown


def test_axes() -> None:
    found = axis.Axis.of([50.0, None, 200.0], (100, 300), "count")
    assert (found.at(0), found.at(100), found.at(200)) == (100, 200, 300)
    assert found.ticks() == [0, 50, 100, 150, 200]
    found = axis.Axis.of([10.0, 290.0], (0, 1), "count", "fitting")
    assert not found.is_log
    found = axis.Axis.of([0.0, 10.0, 310.0], (0, 1), "count", "fitting")
    assert found.is_log and found.at(0) == 0 and found.low == 8
    assert found.ticks() == [10, 20, 50, 100, 200]
    found = axis.Axis.of([100.0], (0, 1), "time", "log")
    assert (found.low, found.high) == (80, 800)
    assert axis.Axis.of([], (0, 1), "count").ticks() == [0, 0.25, 0.5, 0.75, 1]
    sizes = axis.Axis.of([9 * 2**20, 400 * 2**20], (0, 1), "bytes", "log")
    assert [sizes.label(each) for each in sizes.ticks()] == [
        f"{each} MiB" for each in (10, 20, 50, 100, 200)
    ]
    few = axis.Axis.of([1e6, 1e12], (0, 1), "count", "log", ticks_max=4)
    assert few.ticks() == [1e6, 1e8, 1e10, 1e12]


def test_ticks() -> None:
    assert axis.round_ticks(0, 165e3) == [0, 50e3, 100e3, 150e3]
    assert axis.round_ticks(0, 1) == [0, 0.25, 0.5, 0.75, 1]
    assert axis.log_ticks(40, 3000) == [50, 100, 200, 500, 1000, 2000]
    assert axis.size_ticks(45 * 2**20) == [0, 20 * 2**20, 40 * 2**20]
