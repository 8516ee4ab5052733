"""Writes docs/reliability.md from the record of the tests: `python -m faults.report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from faults.rows import ROWS, Row

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"

INTRODUCTION = """\
# Reliability

This page is for people who decide whether to rely on a server: what can go wrong, what Bolide
promises then, and what was measured.

`make faults` produces the faults against a running server, and this page is made from its results.
Clients and the application keep ledgers, which are compared afterwards. A request is **lost** if a
client has sent all of it, and gets neither a complete response nor a refusal after which it may
safely send the request again. Such a refusal is a 503, or the end of the connection before the
first byte of a response, and the application must not have begun the request. A request that runs
twice, and a response without one, also fail the test.

"complete", "refused" and "reset" count requests. Reset means that the connection was reset instead
of closed before the request was begun. Rows without figures are proved by the tests that they name;
"not run" means that the last record has no result of them. `make test` runs a shorter form of this.
"""


def load() -> dict[str, dict[str, Any]]:
    """Read the record."""
    return dict(json.loads(RECORD.read_text()))


def results_of(row: Row, record: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the tests of this folder have measured for a row."""
    return [each for _, each in sorted(record.items()) if each.get("row") == row.number]


def proved(row: Row, record: dict[str, dict[str, Any]]) -> list[str]:
    """Return the other tests of a row, with how many ran."""
    lines = []
    for proof in row.proofs:
        ran = [each for name, each in record.items() if is_part(name, proof)]
        passed = sum(each["outcome"] == "passed" for each in ran)
        result = f"{passed} of {len(ran)} passed" if ran else "not run"
        lines.append(f"`{proof.removeprefix('tests/')}`: {result}")
    return lines


def is_part(name: str, proof: str) -> bool:
    """Whether a test is one of those that a proof names."""
    return name == proof or name.startswith((f"{proof}::", f"{proof}["))


def cells(row: Row, record: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """Return what was measured and lost."""
    results = results_of(row, record)
    measured = [
        each["measured"] if each["outcome"] == "passed" else f"**{each['outcome']}**"
        for each in results
        if "measured" in each
    ]
    lost = str(sum(each.get("lost", 0) for each in results)) if results else "-"
    lines = [*measured, *proved(row, record)]
    return "<br>".join(lines) or "-", lost


def page(record: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    lines = [INTRODUCTION]
    dates = sorted({each["date"] for each in record.values()})
    machines = sorted({each["machine"] for each in record.values()})
    lines.append(
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on: {'; '.join(machines)}.\n"
    )
    lines.append("| | fault | how it is produced | promise | measured | lost |")
    lines.append("| ---: | --- | --- | --- | --- | ---: |")
    for row in ROWS:
        measured, lost = cells(row, record)
        promise = f"{row.promise}{f' *{row.why}*' if row.why else ''}"
        lines.append(
            f"| {row.number} | {row.fault} | {row.made} | {promise} | {measured} | {lost} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(load()))
