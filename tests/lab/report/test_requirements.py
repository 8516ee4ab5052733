"""What must be reached: the ratios of the same turns, and which processor time is compared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bolide.lab.record.schema import (
    Contestant,
    Failure,
    GeneratorUse,
    Record,
    Requirement,
    ServerUse,
    Study,
    Trial,
    Verdict,
    Workload,
)
from bolide.lab.report import markdown, page
from bolide.lab.report.compare import changes
from bolide.lab.report.requirement.judgement import Judgement, below, judged
from bolide.lab.report.requirement.rows import tables
from bolide.lab.report.summary import Race, Result, gather

LOAD = Workload(name="kept-bolide", tool="bolide", connections=100, duration_s=0.5)


def trial(name: str, number: int, rate: float, **more: Any) -> Trial:
    fields: dict[str, Any] = {
        "study": "mine",
        "workload": LOAD.name,
        "contestant": name,
        "round": number,
        "tool": "bolide",
        "tool_version": "1",
        "command": [],
        "started_at": "2026-11-22T00:00:00",
        "seconds": 0.5,
        "is_valid": True,
        "ok": int(rate / 2),
        "requests_per_s": rate,
        "requests_sent": int(rate / 2),
        "server": ServerUse(cpu_s=0.5, cpu_share=1.0),
        "generator": GeneratorUse(cpu_share=0.5),
        "verdict": "server-bound",
    }
    return Trial(**(fields | more))


def entry(name: str) -> Contestant:
    return Contestant(
        name=name,
        title=name,
        role="server",
        interface="asgi",
        version="1",
        language="Python",
        settings="",
        state="ready",
        reason="",
    )


def judgement(trials: list[Trial], turns: int = 1, **wanted: Any) -> Judgement:
    """Return the judgement of one requirement of `a` against `b`."""
    fields = {"title": "R", "contestant": "a", "workload": LOAD.name, "against": "b"} | wanted
    [found] = judged(gathered(trials, Requirement(**fields), turns=turns))
    return found


def gathered(trials: list[Trial], *wanted: Requirement, turns: int = 1) -> Result:
    plan = Study(
        name="mine",
        title="Mine",
        document="",
        rounds=5,
        duration_s=0.5 * turns,
        workloads=(LOAD,),
        published=(),
        turn_s=0.5,
        requirements=wanted,
    )
    records: list[Record] = [plan, entry("a"), entry("b"), *trials]
    return gather(records).results[0]


def pairs(*rates: tuple[float, float], **more: Any) -> list[Trial]:
    return [
        trial(name, number, rate, **more)
        for number, both in enumerate(rates, 1)
        for name, rate in zip("ab", both, strict=True)
    ]


def test_the_ratio_is_the_median_of_those_of_the_same_turns() -> None:
    # The machine is half as fast in the second turn, and a third turn was lost on one side.
    found = pairs((300, 100), (100, 50), (240, 60))
    found.append(trial("a", 4, 9000))
    assert judgement(found, at_least=2.5).outcome == "reached"
    value = judgement(found).value
    assert value is not None and (value.middle, value.low, value.high) == (3.0, 2.0, 4.0)
    assert (value.count, judgement(found).outcome) == (3, "shown")


# The ratios of five starts with four turns each: what a start draws, all of its turns share.
STARTS = [
    [(200, 100), (210, 100), (190, 100), (200, 100)],
    [(300, 100), (320, 100), (280, 100), (300, 100)],
    [(250, 100), (252, 100), (248, 100), (900, 100)],
    [(400, 100), (410, 100), (390, 100), (400, 100)],
    [(100, 100), (100, 100), (100, 100), (100, 100)],
]


def test_a_start_counts_once_however_many_turns_it_has() -> None:
    found = pairs(*(turn for start in STARTS for turn in start))
    result = gathered(
        found,
        Requirement(title="R", contestant="a", workload=LOAD.name, against="b", at_least=2.5),
        turns=4,
    )
    [each] = judged(result)
    value = each.value
    assert value is not None and each.outcome == "reached"
    assert (value.middle, value.low, value.high) == pytest.approx((2.51, 1.0, 4.0))
    assert (value.count, value.label) == (5, "range of 5 rounds")
    [(_, table)] = tables(result)
    cell = table.lines[0].cells[6]
    assert (cell.text, cell.under) == ("1.00 to 4.00", "range of 5 rounds")
    figure = result.figures[LOAD.name, "a"]
    assert figure.rate is not None
    assert (figure.rate.middle, figure.rate.low, figure.rate.high) == (251, 100, 400)
    assert (figure.rounds, figure.by_round[2]) == (5, 300)
    html = page.render(Race(None, [entry("a"), entry("b")], [result]), b"")
    assert "Rounds: 5 of 2\u00a0s in 4 turns." in html
    assert "Rounds were added" not in html


def test_a_comparison_of_turns_has_as_many_rounds_as_starts() -> None:
    """Twenty turns of five starts are five rounds, with which no test can find anything."""

    def race(factor: float, rounds: int) -> Race:
        turns = pairs(*((factor * a, b) for start in STARTS for a, b in start), (100, 100))
        return Race(None, [], [gathered(turns[: 8 * rounds], turns=4)])

    [own, other] = changes(race(1.0, 5), race(0.5, 5))
    assert (own.contestant, own.verdict, own.p_value) == ("a", "unknown", None)
    assert own.ratio is not None and (own.ratio.middle, own.ratio.count) == (0.5, 5)
    assert other.verdict == "unknown"
    [own, other] = changes(race(1.0, 6), race(0.5, 6))
    assert own.ratio is not None and own.ratio.count == 6
    assert own.p_value is not None


@pytest.mark.parametrize(
    ("wanted", "outcome"),
    [
        ({"at_least": 3.0}, "reached"),
        ({"at_least": 3.001}, "below"),
        ({"at_most": 3.0}, "reached"),
        ({"at_most": 2.999}, "below"),
        ({"at_least": 1.0, "against": "c"}, "not measured"),
        ({"at_least": 1.0, "contestant": "c"}, "not measured"),
    ],
)
def test_the_outcome(wanted: dict[str, Any], outcome: str) -> None:
    assert judgement(pairs((300, 100)), **wanted).outcome == outcome


def test_a_value_below_its_bar_is_not_rounded_up_to_it() -> None:
    wanted = Requirement(title="R", contestant="a", workload=LOAD.name, against="b", at_least=1.5)
    result = gathered(pairs((1498, 1000)), wanted)
    [(caption, table)] = tables(result)
    assert caption == "What must be reached"
    assert [cell.text for cell in table.lines[0].cells] == [
        "R",
        "1,498",
        "b",
        "1,000",
        "≥ 1.50",
        "1.49",
        "",
        "below",
    ]
    assert below(result) == ["R, b"]
    assert below(gathered(pairs((1500, 1000)), wanted)) == []


def test_processor_time_is_that_of_all_requests_of_the_tool() -> None:
    """Also those of its warm-up, in which the server worked."""
    found = [
        trial("a", 1, 100, requests_sent=80, server=ServerUse(cpu_s=0.4)),
        trial("b", 1, 100, requests_sent=80, server=ServerUse(cpu_s=0.8)),
    ]
    each = judgement(found, at_least=1.9, measure="cpu")
    assert each.value is not None and each.value.middle == pytest.approx(2.0)
    assert each.remark == "per second of the server's processor time"


@pytest.mark.parametrize(
    ("shares", "ratio", "remark"),
    [
        ((0.99, 0.99), 2.0, "per second of the server's processor time: the generator was the"),
        ((0.99, 0.50), 1.0, "at least this: the generator was the limit of a"),
        ((0.50, 0.99), 1.0, "at most this: the generator was the limit of b"),
        ((0.50, 0.50), 1.0, ""),
    ],
)
def test_rates_say_nothing_if_the_generator_was_the_limit_of_both(
    shares: tuple[float, float], ratio: float, remark: str
) -> None:
    found = [
        trial(
            name,
            1,
            100,
            server=ServerUse(cpu_s=cpu_s, cpu_share=cpu_s),
            generator=GeneratorUse(cpu_share=share),
        )
        for name, cpu_s, share in (("a", 0.4, shares[0]), ("b", 0.8, shares[1]))
    ]
    each = judgement(found, at_least=1.0)
    assert each.value is not None and each.value.middle == pytest.approx(ratio)
    assert each.remark.startswith(remark) and bool(each.remark) == bool(remark)


@pytest.mark.parametrize(
    ("shares", "at_least", "outcome"),
    [
        ((0.99, 0.50), 0.5, "reached"),
        ((0.99, 0.50), 2.0, "undecided"),
        ((0.50, 0.99), 0.5, "undecided"),
        ((0.50, 0.99), 2.0, "below"),
    ],
)
def test_a_ratio_that_is_a_bound_decides_in_one_direction(
    shares: tuple[float, float], at_least: float, outcome: str
) -> None:
    found = [
        trial(name, 1, 100, server=ServerUse(cpu_s=1.0), generator=GeneratorUse(cpu_share=share))
        for name, share in zip("ab", shares, strict=True)
    ]
    assert judgement(found, at_least=at_least).outcome == outcome


def test_the_servers_own_time() -> None:
    found = [
        trial("a", 1, 100, own_us=8.0, application_us=50.0),
        trial("b", 1, 100, own_us=40.0, application_us=60.0),
    ]
    each = judgement(found, at_most=0.25, measure="own time")
    assert each.value is not None and each.value.middle == pytest.approx(0.2)
    assert each.outcome == "reached"
    wanted = each.requirement
    [(_, table)] = tables(gathered(found, wanted))
    cells = table.lines[0].cells
    assert (cells[1].text, cells[1].under) == ("8.0 us", "application 50.0 us")


def test_memory() -> None:
    use = ServerUse(rss_bytes_start=5000, rss_bytes_process=3000, rss_bytes_max=7000)
    found = [trial("a", 1, 100, server=use)]
    start = judgement(found, against="", measure="memory at start", at_most=3000)
    assert (start.value and start.value.middle, start.outcome) == (3000, "reached")
    each = judgement(found, against="", measure="memory each", at_most=19)
    assert (each.value and each.value.middle, each.outcome) == (20, "below")


def test_what_failed_is_not_measured_and_the_reason_is_shown() -> None:
    failed: Verdict = "failed"
    broken = trial("b", 1, 0, is_valid=False, verdict=failed, failure=Failure("start", "no port"))
    broken = msgspec.structs.replace(broken, ok=None, requests_per_s=None, evidence=["no port"])
    each = judgement([trial("a", 1, 100), broken], at_least=1.0)
    assert (each.outcome, each.remark) == ("not measured", "b: no port")
    found = [*pairs((200, 100), (200, 100)), msgspec.structs.replace(broken, round=3)]
    each = judgement(found, at_least=1.0)
    assert each.outcome == "reached"
    [(_, table)] = tables(gathered(found, each.requirement))
    assert table.lines[0].cells[-1].under == "b failed in 1 of 3 turns"


def test_the_page_and_markdown_have_the_table_first() -> None:
    wanted = Requirement(title="R", contestant="a", workload=LOAD.name, against="b", at_least=3.0)
    result = gathered(pairs((200, 100)), wanted)
    race = Race(None, [entry("a"), entry("b")], [result])
    text = markdown.render(race, {})
    row = "| R | 200 | b | 100 | ≥ 3.00 | 2.00 |  | below |"
    assert text.index("### What must be reached") < text.index(row) < text.index("### bolide load")
    html = page.render(race, b"")
    assert html.index("What must be reached") < html.index("bolide load · 100 connections")


def test_bytes_are_compared_where_few_responses_are_complete() -> None:
    found = [trial("a", 1, 2.0, bytes_per_s=3e8), trial("b", 1, 3.0, bytes_per_s=2e8)]
    assert judgement(found, measure="bytes", at_least=1.5).outcome == "reached"
    line = tables(
        gathered(
            found,
            Requirement(
                title="R", contestant="a", workload=LOAD.name, against="b", measure="bytes"
            ),
        )
    )[0][1].lines[0]
    assert [cell.text for cell in line.cells[1:4:2]] == ["286 MiB/s", "191 MiB/s"]


def test_bytes_per_processor_time_where_the_generator_is_the_limit() -> None:
    limited = {"generator": GeneratorUse(cpu_share=1.0)}
    # The second server needs half the processor time for 1.5 times the bytes.
    found = [
        trial("a", 1, 4.0, run_bytes=400, server=ServerUse(cpu_s=0.5, cpu_share=0.5), **limited),
        trial("b", 1, 4.0, run_bytes=600, server=ServerUse(cpu_s=0.25, cpu_share=0.5), **limited),
    ]
    value = judgement(found, measure="bytes")
    assert value.value is not None and value.value.middle == pytest.approx(1 / 3)
    assert value.remark.endswith("the generator was the limit of both")


def test_bytes_per_processor_time_are_those_of_the_whole_run() -> None:
    """Not those of complete responses: of a few long ones, it is chance how many a turn has."""
    limited = {"generator": GeneratorUse(cpu_share=1.0), "bytes_per_s": 8e8}
    use = ServerUse(cpu_s=0.5, cpu_share=0.5)
    found = [
        trial("a", 1, 4.0, run_bytes=950, requests_sent=9, server=use, **limited),
        trial("b", 1, 2.0, run_bytes=950, requests_sent=10, server=use, **limited),
    ]
    value = judgement(found, measure="bytes")
    assert value.value is not None and value.value.middle == pytest.approx(1.0)
