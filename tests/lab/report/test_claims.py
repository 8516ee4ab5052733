"""The claims of a document: judged from the figures, and in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bolide.lab.plan import study
from bolide.lab.record.schema import Claim, Failure, Served, Trial
from bolide.lab.report import claims, markdown
from bolide.lab.report.page import render
from bolide.lab.report.summary import Race, Result, gather
from bolide.lab.report.terminal import of_document
from lab import sample_race

OF_TWO = "fast: 0.50× of two, range of 3 rounds 0.50× to 0.50× (one)"
AT_ONE = "fast: 210 requests/s, range of 3 rounds 200 to 220 (one)"
AT_TWO = "fast: 420 requests/s, range of 3 rounds 400 to 440 (two)"
OF_SLOW = "fast: 2.10× of slow, range of 3 rounds 2.00× to 2.10× (one)"
RATES = {"fast": [200.0, 210.0, 220.0], "slow": [100.0, 100.0, 105.0], "ceiling": [900.0] * 3}


LOST = {
    "is_valid": False,
    "ok": None,
    "failed": None,
    "requests_per_s": None,
    "verdict": "failed",
}


def result(
    *found: Claim,
    changed: dict[str, Any] | None = None,
    whose: tuple[str, ...] = ("fast",),
    rounds: int = 3,
    unchanged: tuple[int, ...] = (),
    rates: list[float] | None = None,
) -> Result:
    """Return rounds of three servers; `changed` are fields of the trials of `whose`.

    Those of the rounds `unchanged` are not. `rates` are those of the server "fast".
    """
    by_name = RATES if rates is None else {**RATES, "fast": rates}
    rounds = rounds if rates is None else len(rates)
    workloads = [sample_race.workload(name, "bolide", 100) for name in ("one", "two")]
    plan = msgspec.structs.replace(sample_race.study("mine", "Mine", workloads), claims=found)
    [model, *_] = [each for each in sample_race.contestants() if each.role == "server"]
    servers = [msgspec.structs.replace(model, name=each, title=each) for each in RATES]
    trials = [
        Trial(
            study="mine",
            workload=workload.name,
            contestant=name,
            round=number,
            tool="bolide",
            tool_version=None,
            command=[],
            started_at="2026-11-21T12:00:00+00:00",
            is_valid=True,
            ok=10_000,
            failed=0,
            requests_per_s=rate * (1 if workload.name == "one" else 2),
            verdict="server-bound",
        )
        for workload in workloads
        for name, values in by_name.items()
        for number, rate in enumerate(values[:rounds])
    ]
    trials = [
        msgspec.structs.replace(each, **(changed or {}))
        if each.contestant in whose and each.round not in unchanged
        else each
        for each in trials
    ]
    [gathered] = gather([plan, *servers, *trials]).results
    return gathered


def test_without_a_round_that_has_all_figures_nothing_is_judged() -> None:
    found = result(claim(than=["slow"], at_least=1.0), rounds=1)
    figure = found.figures["one", "slow"]
    moved = [msgspec.structs.replace(each, round=7) for each in figure.trials]
    found.figures["one", "slow"] = replace(figure, trials=moved)
    [verdict] = claims.verdicts(found)
    assert (verdict.outcome, verdict.evidence) == (
        "not judged",
        "one: no round has all of the figures",
    )


def claim(text: str = "it is fast", **more: Any) -> Claim:
    fields = {"workloads": ["one"], "contestants": ["fast"], "text": text, **more}
    return msgspec.convert(fields, Claim)


@pytest.mark.parametrize(
    ("bounds", "outcome", "evidence"),
    [
        ({"at_least": 190.0}, "holds", AT_ONE),
        ({"at_least": 230.0}, "does not hold", AT_ONE),
        ({"at_least": 205.0}, "undecided", AT_ONE),
        ({"than": ["slow"], "at_least": 1.0}, "holds", OF_SLOW),
        ({"than": ["slow"], "at_most": 1.5}, "does not hold", None),
        ({"than": ["slow", "ceiling"], "at_least": 1.0}, "does not hold", None),
        ({"than": ["slow"], "at_least": 2.05}, "undecided", None),
        ({"than_workloads": ["two"], "at_most": 0.6}, "holds", OF_TWO),
        ({"figure": "errors", "at_most": 0.0}, "holds", "fast: 0 failed requests (one)"),
        ({"figure": "errors", "at_least": 0.1}, "does not hold", None),
        ({"contestants": ["none"], "at_least": 1.0}, "not judged", "one: not run"),
        ({"workloads": ["none", "two"], "at_least": 390.0}, "holds", AT_TWO),
    ],
)
def test_a_claim_is_judged_by_its_interval(
    bounds: dict[str, Any], outcome: str, evidence: str | None
) -> None:
    [found] = claims.verdicts(result(claim(**bounds)))
    assert found.outcome == outcome, found
    assert evidence in (None, found.evidence)


def test_a_load_that_decides_otherwise_is_named() -> None:
    [found] = claims.verdicts(result(claim(workloads=["one", "two"], at_least=390.0)))
    assert found.outcome == "does not hold"
    assert found.evidence == f"{AT_ONE}; it holds by {AT_TWO}"
    [found] = claims.verdicts(result(claim(workloads=["one", "two"], at_least=190.0)))
    assert (found.outcome, "; it" in found.evidence) == ("holds", False)


def test_figures_of_a_busy_machine_decide_nothing() -> None:
    every = [claim(at_least=1.0), claim(at_most=1.0)]
    for found in claims.verdicts(result(*every, changed={"verdict": "noisy"})):
        assert found.outcome == "undecided"
        assert found.evidence.endswith("(one; the machine was busy)")


@pytest.mark.parametrize(
    "bounds",
    [
        {"at_least": 1.0},
        {"at_most": 1.0},
        {"than": ["slow"], "at_least": 1.0},
        {"figure": "errors", "at_most": 0.0},
        {"figure": "errors", "at_least": 0.1},
    ],
)
def test_fewer_than_three_rounds_decide_nothing(bounds: dict[str, Any]) -> None:
    for rounds, few in ((1, "only 1 round, 3 are needed"), (2, "only 2 rounds, 3 are needed")):
        [found] = claims.verdicts(result(claim(**bounds), rounds=rounds))
        assert found.outcome == "undecided"
        assert found.evidence.endswith(f"(one); {few}")
    [found] = claims.verdicts(result(claim(**bounds)))
    assert found.outcome in ("holds", "does not hold")


def test_one_round_of_a_server_that_serves_few_connections_decides_nothing() -> None:
    few = Served(connections=5, starved=95, min=1, median=9, max=9)
    [found] = claims.verdicts(result(claim(at_least=100.0), changed={"served": few}, rounds=1))
    why = "95 of 100 connections were not served: the rate is that of 5"
    assert found.outcome == "undecided"
    assert found.evidence == f"{why} (one); only 1 round, 3 are needed"


def test_what_the_generator_limited_does_not_refute() -> None:
    busy = {"verdict": "generator-bound"}
    slower = claim(than=["ceiling"], at_least=1.0)
    [found] = claims.verdicts(result(slower, changed=busy))
    assert found.outcome == "undecided"
    assert found.evidence.endswith("(one; the generator was the limit)")
    [found] = claims.verdicts(result(claim(at_least=100.0), changed=busy))
    assert found.outcome == "holds"


@pytest.mark.parametrize(
    ("limited", "bounds", "outcome"),
    [
        # At least as fast as measured, so at least 2.00 times as fast as the other.
        (("fast",), {"at_least": 1.5}, "holds"),
        (("fast",), {"at_least": 2.5}, "undecided"),
        (("fast",), {"at_most": 1.5}, "does not hold"),
        (("fast",), {"at_most": 2.5}, "undecided"),
        (("fast",), {"at_least": 1.5, "at_most": 2.5}, "undecided"),
        # The other is faster than measured, so the ratio is at most 2.10.
        (("slow",), {"at_least": 1.5}, "undecided"),
        (("slow",), {"at_least": 2.5}, "does not hold"),
        (("slow",), {"at_most": 2.5}, "holds"),
        (("slow",), {"at_least": 1.5, "at_most": 2.5}, "undecided"),
        # Two servers that the same tool limits are equally fast.
        (("fast", "slow"), {"at_least": 1.5, "at_most": 2.5}, "undecided"),
        (("fast", "slow"), {"at_least": 1.5}, "undecided"),
        (("fast", "slow"), {"at_least": 2.5}, "undecided"),
    ],
)
def test_what_the_generator_limited_bounds_a_ratio_from_one_side(
    limited: tuple[str, ...], bounds: dict[str, Any], outcome: str
) -> None:
    busy = {"verdict": "generator-bound"}
    [found] = claims.verdicts(result(claim(than=["slow"], **bounds), changed=busy, whose=limited))
    assert found.outcome == outcome
    assert found.evidence == f"{OF_SLOW[:-1]}; the generator was the limit)"


@pytest.mark.parametrize(
    ("rounds", "limited", "outcome"),
    [
        # The rates of 200, 210 and 220 are those of the rounds 0, 1 and 2; the range has all.
        (3, (2,), "undecided"),
        (3, (0,), "undecided"),
        (3, (), "holds"),
    ],
)
def test_a_round_that_the_generator_limited_has_no_upper_end(
    rounds: int, limited: tuple[int, ...], outcome: str
) -> None:
    unchanged = tuple(number for number in range(rounds) if number not in limited)
    busy = {"verdict": "generator-bound"}
    [found] = claims.verdicts(result(claim(at_most=250.0), changed=busy, unchanged=unchanged))
    assert found.outcome == outcome
    assert found.evidence.endswith("(one; the generator was the limit in some rounds)") == bool(
        limited
    )


def test_few_rounds_that_the_generator_limited_are_within_an_interval() -> None:
    """The interval of nine rounds leaves out the greatest, whatever it is."""
    rates = [200.0 + number for number in range(9)]
    for limited, outcome in ((1, "holds"), (2, "undecided")):
        found = result(
            claim(at_most=250.0),
            rates=rates,
            changed={"verdict": "generator-bound"},
            unchanged=tuple(range(limited, 9)),
        )
        assert claims.verdicts(found)[0].outcome == outcome


def test_a_server_that_serves_few_connections_refutes_its_rate() -> None:
    few = Served(connections=5, starved=95, min=1, median=9, max=9)
    starved = result(
        claim(at_least=100.0), claim(than=["slow"], at_least=1.0), changed={"served": few}
    )
    rate, ratio = claims.verdicts(starved)
    why = "95 of 100 connections were not served: the rate is that of 5"
    assert (rate.outcome, rate.evidence) == ("does not hold", f"{why} (one)")
    assert (ratio.outcome, ratio.evidence) == ("not judged", f"one: fast: {why}")
    lost = {"failure": Failure("hang", "it hung"), "is_valid": False, "verdict": "failed"}
    [found] = claims.verdicts(result(claim(at_least=100.0), changed=lost))
    assert (found.outcome, found.evidence) == ("not judged", "one: fast: hang: it hung")


@pytest.mark.parametrize("kind", ["died", "hang"])
@pytest.mark.parametrize(("unchanged", "number"), [((0,), 2), ((0, 1), 1)])
def test_a_server_that_dies_or_hangs_has_errors(
    kind: str, unchanged: tuple[int, ...], number: int
) -> None:
    """Nobody counted the requests that failed, so the counts of the other rounds are 0."""
    changed = LOST | {"failure": Failure(kind, "why")}
    none, some = claim(figure="errors", at_most=0.0), claim(figure="errors", at_least=0.1)
    found = result(none, some, changed=changed, unchanged=unchanged)
    assert found.figures["one", "fast"].failed_share == 0.0
    refuted, _ = claims.verdicts(found)
    assert refuted.outcome == "does not hold"
    said = f"fast ended or hung in {number} of 3 trials, first {kind}: why (one)"
    assert refuted.evidence == said


def test_no_errors_needs_a_figure() -> None:
    """A server that did not start in most rounds shows nothing about its errors."""
    none = claim(figure="errors", at_most=0.0)
    changed = LOST | {"failure": Failure("start", "no port")}
    [found] = claims.verdicts(result(none, changed=changed, unchanged=(0,)))
    assert (found.outcome, found.evidence) == ("not judged", "one: fast: start: no port")
    [found] = claims.verdicts(result(none, changed=changed, unchanged=(0, 1)))
    assert found.outcome == "holds"
    few = Served(connections=5, starved=95, min=1, median=9, max=9)
    [found] = claims.verdicts(result(none, changed={"served": few}))
    assert found.outcome == "not judged"
    wrong = {"failed": 600, "is_valid": False, "verdict": "errors"}
    bounds = (none, claim(figure="errors", at_most=0.1))
    found_none, found_few = claims.verdicts(result(*bounds, changed=wrong))
    assert (found_none.outcome, found_few.outcome) == ("does not hold", "holds")


def test_the_sentence_counts_and_names_them() -> None:
    held, wrong = claim("A", at_least=1.0), claim("B", at_most=1.0)
    open_, lost = claim("C", at_least=205.0), claim("D", contestants=["none"], at_least=1.0)
    every = [held, wrong, open_, lost, claim("E", at_least=2.0)]
    said = claims.sentence(claims.verdicts(result(*every)))
    assert said == (
        "2 of the document's 5 claims hold here: A; E. 1 does not hold: B. 1 is undecided: C."
        " 1 could not be judged: D."
    )
    none = claims.sentence(claims.verdicts(result(wrong, claim("F", at_most=1.0))))
    assert none == "None of the document's 2 claims holds here. 2 do not hold: B; F."
    for only, verb in ((held, "holds"), (wrong, "does not hold"), (lost, "could not be judged")):
        said = claims.sentence(claims.verdicts(result(only)))
        assert said == f"The document's only claim {verb} here: {only.text}."
    none = claims.sentence(claims.verdicts(result(lost, lost)))
    assert none == "None of the document's 2 claims could be judged here."
    assert claims.sentence([]) == ""


def test_the_sentence_is_on_top_of_page_and_markdown_and_on_the_terminal() -> None:
    found = result(claim("A", at_least=1.0), claim("B", at_most=1.0))
    race = Race(None, found.contestants, [found])
    said = "1 of the document's 2 claims holds here: A. 1 does not hold: B."
    text = markdown.render(race, {})
    assert text.index(said) < text.index("| ")
    assert "- **A**: holds. fast: 210 requests/s, range of 3 rounds 200 to 220 (one)" in text
    page = render(race, b"")
    assert page.index(said.replace("'", "&#39;")) < page.index("<table")
    assert "fast: 210 requests/s, range of 3 rounds 200 to 220 (one)" in page
    assert said in [str(each) for each in of_document(found)]


@pytest.mark.parametrize("name", study.names())
def test_each_study_has_claims_about_its_contestants(name: str) -> None:
    plan = study.load(name)
    if plan.study.requirements:  # Bolide's own, not those of a document
        return
    assert len(plan.study.claims) >= 4
    loads = {each.name: each for each in plan.study.workloads}
    for each in plan.study.claims:
        for workload in (*each.workloads, *each.than_workloads):
            run = loads[workload].contestants or plan.contestants
            assert {*each.contestants, *each.than} <= {*run}, each.text
