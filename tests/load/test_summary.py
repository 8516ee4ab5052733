"""The page, the record for machines, and the sentences beside them."""

import csv
import io
import json
from typing import Any

import pytest

from bolide.load import distribution, plan, record, summary, threshold, verdict
from bolide.load.options import Options
from load.samples import HISTOGRAM, LATENCY, WHERE, report

PLAN = plan.build(Options(urls=(WHERE.url,), connections=10, duration_s=2.0), WHERE)
OPEN = {
    "uncorrected_latency_us": {name: value / 2 for name, value in LATENCY.items()},
    "offered_per_s": 10_000.0,
    "achieved_share": 1.0,
    "schedule_lag_us": {"p50": 5.0, "p99": 60.0, "max": 200.0},
}


def lines(**changes: Any) -> dict[str, str]:
    """Return the page's lines by their first word."""
    page = summary.page(report(**changes), PLAN, WHERE)
    return {line.split("  ")[0].strip(): line for line in page.splitlines() if line}


def test_figures() -> None:
    found = lines(statuses={"200": 19_990, "503": 10}, errors={"wrong_status": 10})
    assert next(iter(found)) == "http://127.0.0.1:8000/page?a=b: 10 connections, 1 thread"
    assert found["rate"] == "rate            10,000.0 requests/s"
    assert found["responses"] == "responses       20,000 in 2.0 s"
    assert found["failed"] == "failed          10 of 20,010 (0.05%): 10 wrong_status"
    assert found["statuses"] == "statuses        19,990 x 200, 10 x 503"
    assert found["received"] == "received        3.15 MiB, 1.57 MiB/s"
    assert found["per connection"] == (
        "per connection  1,900 to 2,100 responses, 2,000 at the median"
    )
    assert found["generator CPU"].endswith(
        "50% of a core in the busiest thread, 50,000 ns for each request"
    )
    assert "unfinished" not in found and "offered" not in found
    assert lines()["failed"] == "failed          none"
    assert lines(unfinished=3)["unfinished"] == "unfinished      3"
    ages = [[1_000.0, 2], [3_000_000.0, 1]]
    assert lines(unfinished=3, unfinished_us=ages)["unfinished"] == (
        "unfinished      3, the oldest after 3.00 s"
    )


def test_a_fleet_has_agents_and_other_remedies() -> None:
    fleet = {"fleet": {"agents": [{}, {}]}}
    assert next(iter(lines(**fleet))).endswith(": 10 connections, 2 agents with 1 thread each")
    bound = report(generator_cpu=0.96, **fleet)
    assert "use more agents, or processors of its own" in verdict.sentences(bound, PLAN)[0]
    [shared] = verdict.sentences(report(shared_processors=[0], **fleet), PLAN)
    assert shared.endswith("give each a processor (taskset)")
    ports = {"errors": {"connect": 3}, "connect_failures": {"no_port": 3}}
    [found] = verdict.sentences(report(**ports, **fleet), PLAN)
    assert "use more agents, or leave out --no-keep-alive" in found and "--source" not in found


def test_a_single_connection_has_no_distribution() -> None:
    single = {"connections": 1, "starved": 0, "min": 9, "median": 9, "max": 9, "fairness": 1.0}
    assert "per connection" not in lines(connections_served=single)


def test_percentiles_to_the_last() -> None:
    found = lines()
    assert found["p99"].split() == ["p99", "8.00", "ms", "800", "us"]
    assert found["p99.99"].split() == ["p99.99", "15.0", "ms", "1.50", "ms"]
    assert found["max"].split()[1:3] == ["16.0", "ms"]
    few = lines(ok=150)
    assert few["p99.9"].endswith("(same as max: too few responses)")
    assert not few["p99"].endswith(")")


def test_an_open_loop_shows_both_latencies_side_by_side() -> None:
    page = summary.page(report(**OPEN), PLAN, WHERE)
    assert "from due time   from sending" in page
    found = lines(**OPEN)
    assert found["p99"].split()[1:5] == ["8.00", "ms", "4.00", "ms"]
    assert found["offered"] == (
        "offered         10,000.0 requests/s, 100.00% achieved; generator late by 60.0 us at p99"
    )
    assert lines(**OPEN, drained=30)["offered"].startswith(
        "offered         10,000.0 requests/s, 100.00% achieved (30 after the end); generator late"
    )


def test_the_histogram_draws_every_response_once() -> None:
    page = summary.page(report(), PLAN, WHERE)
    rows = [line for line in page.splitlines() if line.startswith("up to")]
    assert 2 <= len(rows) <= summary.BINS_MAX
    assert sum(int(row.split()[-1].replace(",", "")) for row in rows) == 20_000
    assert max(row.count("█") for row in rows) == summary.BAR_CELLS
    assert rows[-1].startswith("up to  16.0 ms")


def test_no_responses_draw_nothing() -> None:
    page = summary.page(
        report(ok=0, requests_per_s=0.0, statuses={}, errors={"refused": 12}), PLAN, WHERE
    )
    assert "up to" not in page and "p99" not in page
    assert page.endswith("note: there was no response at all (12 refused), so there are no figures")


STARVED = {
    "connections": 5,
    "starved": 95,
    "min": 0,
    "median": 0,
    "max": 51_000,
    "fairness": 0.05,
}
UNEVEN = STARVED | {"connections": 100, "starved": 0, "min": 1, "median": 1, "max": 4_000}
NOTES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"errors": {"timeout": 200}}, ""),
    ({"errors": {"timeout": 203}}, "203 of 20,203 requests failed (203 timeout): rate and latency"),
    (
        {"ok": 0, "statuses": {"404": 10_000}, "errors": {"wrong_status": 10_000}},
        "10,000 of 10,000 responses had status 404 instead of 2xx: the rate is not a throughput "
        "(--expect-status 404 counts them as correct)",
    ),
    (
        {
            "ok": 900,
            "statuses": {"200": 900, "400": 60, "500": 40},
            "errors": {"wrong_status": 100},
        },
        "100 of 1,000 responses had status 400 or 500 instead of 2xx: rate and latency cover only",
    ),
    (
        {"ok": 0, "statuses": {}, "errors": {"wrong_body": 5}},
        "5 of 5 requests failed (5 wrong_body): the rate is not a throughput",
    ),
    ({"ok": 10, "errors": {"reset": 90}}, "90 of 100 requests failed (90 reset): the rate is not"),
    (
        {"generator_cpu": 0.96},
        "the generator was the bottleneck: its busiest thread used 96% of a core",
    ),
    (
        {"generator_runnable": 0.97},
        "the generator was the bottleneck: its busiest thread wanted a processor for 97% of the "
        "time, and had one for 50%",
    ),
    ({"generator_runnable": 0.94}, ""),
    ({"generator_runnable": 0.97, "seconds": 0.9, "per_second": []}, ""),
    ({"generator_runnable": None}, ""),
    ({"connections_max": 7}, "only 7 of 10 connections were ever open at once"),
    (
        {"connections_at_start": 9},
        "only 9 of 10 connections were open when the measured time started: the rate includes",
    ),
    ({"connections_at_start": 10}, ""),
    ({"connections_at_start": None}, ""),
    (
        {"connections_served": UNEVEN},
        "connections got 1 to 4,000 responses, 1 at the median: rate and latency are those of about"
        " 5 of 100",
    ),
    ({"connections_served": UNEVEN | {"fairness": 0.5}}, ""),
    ({"connections_served": UNEVEN, "ok": 999}, ""),
    (OPEN | {"connections_served": UNEVEN}, ""),
    (
        {"connections_served": STARVED},
        "95 of 100 connections got no correct response: rate and latency are those of the other 5",
    ),
    (
        {"per_second": [{"ok": 20_000}, {"ok": 0}]},
        "in 1 of 2 seconds there was no correct response",
    ),
    ({"connections_opened": 1_010}, ""),
    (
        {"connections_opened": 1_011},
        "1,001 connections had to be reopened during 20,000 requests: the rate includes",
    ),
    (
        OPEN | {"achieved_share": 0.634},
        "only 63.4% of the 10,000 requests/s requested were achieved: requests queued up",
    ),
    (
        OPEN | {"backlog_half": 100, "backlog_end": 201},
        "requests queued up: 201 had no response at the end, 100 halfway: the rate was not",
    ),
    (
        OPEN | {"achieved_share": 0.9, "waited_for_connection": 5_000},
        "only 90.0% of the 10,000 requests/s requested were achieved: requests queued up, and the "
        "latency is mostly that of the queue; 25.0% of the requests found all 10 connections busy: "
        "if the server has time left, give more of them (-c)",
    ),
    (
        {"errors": {"connect": 3}, "connect_failures": {"no_port": 2, "errno_13": 1}},
        "3 connections could not be opened: no local port was free",
    ),
    (
        {"errors": {"connect": 3}, "connect_failures": {"errno_13": 3}},
        "3 connections could not be opened: Permission denied",
    ),
    (
        {"errors": {"connect": 3}, "connect_failures": {"\x1b[31m" + "x" * 200: 3}},
        "3 connections could not be opened: \\x1b[31m" + "x" * 75,
    ),
    (
        {"errors": {"connect": 3}, "connect_failures": {"errno_" + "9" * 20: 3}},
        "3 connections could not be opened: errno_99999999999999999999",
    ),
    (
        {"unfinished": 50, "unfinished_us": [[100.0, 49], [3e6, 1]]},
        "50 requests had no response when the time was over, the oldest after 3.00 s: no response",
    ),
    ({"unfinished": 50, "unfinished_us": [[16_050.0, 50]]}, ""),
    (OPEN | {"backlog_half": 100, "backlog_end": 200}, ""),
    (OPEN | {"backlog_half": 1_000, "backlog_end": 1_250}, ""),
    (OPEN | {"offered_per_s": 10.0, "backlog_half": 0, "backlog_end": 5}, ""),
    (
        OPEN | {"schedule_lag_us": {"p50": 1.0, "p99": 1_200.0, "max": 1e4}},
        "the generator itself sent 1 % of the requests 1.20 ms late or later",
    ),
]

NOTES += [
    (
        {"shared_processors": [0]},
        "server and load share processor 0: each takes time from the other, so the rate is not",
    ),
    ({"shared_processors": [0], "generator_runnable": 1.0}, "server and load share processor 0:"),
    ({"shared_processors": [0, 1]}, "server and load share processors 0, 1: each takes time"),
    ({"shared_processors": []}, ""),
]


@pytest.mark.parametrize(("changes", "says"), NOTES)
def test_notes(changes: dict[str, Any], says: str) -> None:
    found = verdict.sentences(report(**changes), PLAN)
    assert len(found) == (1 if says else 0)
    assert not says or found[0].startswith(says)


def test_a_generator_that_never_sleeps_is_always_busy() -> None:
    sleepless = PLAN | {"is_sleepless": True}
    made = report(generator_cpu=1.0, generator_runnable=1.0)
    assert verdict.sentences(made, sleepless) == []
    assert "100% of a core in the busiest thread, which never sleeps\n" in summary.page(
        made, sleepless, WHERE
    )


def test_a_note_names_the_fix_where_a_server_closes_without_saying_so() -> None:
    made = report(ok=50, errors={"early_eof": 40, "reset": 10}, connections_opened=60)
    assert [note for note in verdict.sentences(made, PLAN) if "--no-keep-alive" in note] == [
        "50 requests were sent on connections that the server closed: if it closes after its "
        "responses without announcing it (Connection: close), use --no-keep-alive"
    ]
    few = report(ok=50, errors={"early_eof": 9}, connections_opened=19)
    assert not any("--no-keep-alive" in note for note in verdict.sentences(few, PLAN))


def test_a_number_of_requests_may_need_fewer_connections_than_there_are() -> None:
    def notes(connections_max: int, **options: Any) -> list[str]:
        asked = Options(urls=(WHERE.url,), connections=100, requests=150, **options)
        made = report(ok=150, connections_max=connections_max)
        return verdict.sentences(made, plan.build(asked, WHERE))

    assert notes(7, pipeline=24) == notes(7, streams=24, http_version="2") == notes(100) == []
    assert notes(6, pipeline=24) == ["only 6 of 100 connections were ever open at once"]
    assert notes(99) == ["only 99 of 100 connections were ever open at once"]


def test_a_note_names_the_status_that_was_expected() -> None:
    wanted = plan.build(Options(urls=(WHERE.url,), expect_status=204, connections=10), WHERE)
    made = report(ok=0, statuses={"200": 5}, errors={"wrong_status": 5})
    assert verdict.sentences(made, wanted) == [
        "5 of 5 responses had status 200 instead of 204: the rate is not a throughput "
        "(--expect-status 200 counts them as correct)"
    ]


def test_json() -> None:
    conditions = [threshold.read("p99 < 20ms"), threshold.read("errors > 1%")]
    with_bytes = PLAN | {"requests": [PLAN["requests"][0] | {"content": b"\xff"}]}
    text = record.as_json(report(), with_bytes, conditions, find={"limit": "server"})
    assert "\n" not in text
    found = json.loads(text)
    assert found["latency_us"]["p99_9"] == 12_000.0
    assert found["plan"]["requests"][0]["content"] == {"base64": "/w=="}
    assert found["requirements"][0] == {"text": "p99 < 20ms", "value": 8000.0, "is_met": True}
    assert found["requirements"][1]["is_met"] is False
    assert found["warnings"] == [] and found["find"] == {"limit": "server"}
    empty = json.loads(record.as_json(report(ok=0), PLAN))
    assert empty["latency_us"] is None


def test_csv_is_a_header_and_a_line() -> None:
    text = record.as_csv(report(errors={"reset": 3}), PLAN)
    header, line = csv.reader(io.StringIO(text))
    row = dict(zip(header, line, strict=True))
    assert row["requests_per_s"] == "10000.0"
    assert (row["errors_reset"], row["errors_timeout"]) == ("3", "0")
    assert row["latency_us_p99_99"] == "15000.0"
    assert row["uncorrected_latency_us_p50"] == row["offered_per_s"] == ""
    assert row["unfinished_oldest_us"] == ""
    _, line = csv.reader(io.StringIO(record.as_csv(report(unfinished_us=[[7.0, 2]]), PLAN)))
    assert dict(zip(header, line, strict=True))["unfinished_oldest_us"] == "7.0"
    _, line = csv.reader(io.StringIO(record.as_csv(report(ok=0), PLAN)))
    assert dict(zip(header, line, strict=True))["latency_us_p50"] == ""


def test_quantiles_and_shares_of_a_histogram() -> None:
    assert distribution.quantile_us(HISTOGRAM, 0.5) == 1_200.0
    assert distribution.quantile_us(HISTOGRAM, 0.66) == 1_700.0
    assert distribution.quantile_us(HISTOGRAM, 1.0) == 16_000.0
    assert distribution.quantile_us([], 0.5) is None
    assert distribution.share_between(HISTOGRAM, 1_000, 2_000) == pytest.approx(14_999 / 20_000)
    assert distribution.share_between([], 0, 1) is None
    assert distribution.bins([], 1, 2, 5) == []
    (only,) = distribution.bins([[50.0, 7]], 50.0, 50.0, 1)
    assert only[2] == 7
    wide = distribution.bins(HISTOGRAM, 100.0, 16_100.0, 6)
    assert wide[-1][1] == pytest.approx(16_100.0)
    assert [count for _, _, count in wide][0] == 1
    assert sum(count for _, _, count in wide) == 20_000
    assert all(lower < upper for lower, upper, _ in wide)
