"""Each reload has a number, and a result of its own."""

from __future__ import annotations

from bolide.server.management.outcomes import COMPLETED, FAILED, KEPT, Outcomes


def test_one_that_includes_others_ends_them_too() -> None:
    outcomes = Outcomes()
    assert [outcomes.begin(), outcomes.begin()] == [1, 2]
    assert outcomes.shown() == {"begun": 2, "results": {}}
    outcomes.end(COMPLETED)
    outcomes.begin()
    outcomes.end(FAILED)
    results = {"1": COMPLETED, "2": COMPLETED, "3": FAILED}
    assert outcomes.shown() == {"begun": 3, "results": results}
    assert outcomes.totals == {COMPLETED: 1, FAILED: 1}


def test_one_that_changes_nothing_ends_alone() -> None:
    outcomes = Outcomes()
    outcomes.begin()
    outcomes.fail(outcomes.begin())
    assert outcomes.shown()["results"] == {"2": FAILED}
    outcomes.end(COMPLETED)
    assert outcomes.shown()["results"] == {"2": FAILED, "1": COMPLETED}


def test_the_last_results_are_kept() -> None:
    outcomes = Outcomes()
    for _ in range(3 * KEPT):
        outcomes.begin()
        outcomes.end(COMPLETED)
    assert list(outcomes.shown()["results"]) == [str(n) for n in range(2 * KEPT + 1, 3 * KEPT + 1)]
