"""The committed reports of whole races match their raw results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bolide.lab.record import journal, schema
from bolide.lab.report import writing

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[3] / "docs" / "results"
PAGE_BYTES_MAX = 1_000_000
FEWER = ("c50-ab",)
"""Loads that a study gives fewer rounds."""
STUDIES = sorted(path.parent.name for path in RESULTS.glob("*/results.jsonl.gz"))


@pytest.mark.parametrize("study", STUDIES)
def test_a_committed_report_is_that_of_its_results(study: str, tmp_path: Path) -> None:
    writing.write(RESULTS / study, tmp_path, is_png=False)
    committed, written = (
        {
            each.name: each.read_bytes()
            for each in folder.iterdir()
            if each.suffix in (".md", ".svg")
        }
        for folder in (RESULTS / study, tmp_path)
    )
    assert written == committed, "docs/results is older than the report: run `make docs`"
    assert (tmp_path / writing.PAGE).stat().st_size < PAGE_BYTES_MAX


@pytest.mark.parametrize("study", STUDIES)
def test_a_committed_race_came_to_its_end(study: str) -> None:
    found = journal.read(RESULTS / study)
    [recorded] = [each for each in found if isinstance(each, schema.Study)]
    trials = [each for each in found if isinstance(each, schema.Trial)]
    rounds = {(each.workload, each.contestant, each.round) for each in trials}
    pairs = {(workload, contestant) for workload, contestant, _ in rounds}
    counts = Counter((workload, contestant) for workload, contestant, _ in rounds)
    for name in {workload for workload, _ in pairs}:
        [count] = {counts[pair] for pair in pairs if pair[0] == name}
        assert count == recorded.rounds or name.startswith(("open-", "find-")) or name in FEWER
    assert {workload for workload, _ in pairs} == {each.name for each in recorded.workloads}
    ready = {
        each.name for each in found if isinstance(each, schema.Contestant) and each.state == "ready"
    }
    assert {contestant for _, contestant in pairs} == ready
