"""The page about reliability is that of the record, and its rows name tests that exist."""

from __future__ import annotations

from faults.report import PAGE, ROOT, load, page, results_of
from faults.rows import ROWS, proofs


def test_the_page_is_made_from_the_record() -> None:
    assert PAGE.read_text() == page(load()), "run `make faults`"


def test_what_proves_a_row_exists() -> None:
    for proof in proofs():
        name, _, test = proof.partition("::")
        text = (ROOT / name).read_text()
        assert f"def {test}" in text, proof


def test_rows_have_results_and_lose_nothing_without_a_reason() -> None:
    record = load()
    assert [row.number for row in ROWS] == list(range(1, 32))
    for row in ROWS:
        results = results_of(row, record)
        assert results or row.proofs or row.why, row.fault
        assert all(each["outcome"] in ("passed", "skipped") for each in results), row.fault
        assert row.why or not any(each.get("lost") for each in results), row.fault
