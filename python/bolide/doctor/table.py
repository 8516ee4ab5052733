"""Writes an examination as a table, with the reason and the fix below each row."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from bolide.doctor.examination import Examination
from bolide.doctor.finding import Finding, Verdict
from bolide.doctor.listening import GROUP as SERVER_GROUP

COLOURS = {
    Verdict.LIMITS: "31;1",
    Verdict.ADVICE: "33",
    Verdict.UNKNOWN: "35",
    Verdict.GONE: "36",
    Verdict.FINE: "32",
}
"""Parameters of the terminal's SGR sequence."""
TITLES = ("verdict", "what", "value", "default")
VERDICT_WIDTH = 8
CELL_WIDTH_MAX = 34
WIDTH_MIN = 40
GAP = "  "
NOTHING = "-"


def render(examination: Examination, *, is_whole: bool, width: int, is_coloured: bool) -> str:
    """Write the rows of limits, or all rows, and a last line with the counts."""
    shown = [each for each in examination.findings if is_whole or _is_shown(each)]
    lines = [_headline(examination), ""]
    if shown:
        lines += _rows(shown, is_whole, max(width, WIDTH_MIN), is_coloured)
    lines.append(_summary(examination, is_whole))
    return "\n".join(lines)


def _headline(examination: Examination) -> str:
    load = examination.load
    return (
        f"Linux {examination.kernel}, judged for {load.connections:,} connections, "
        f"{load.new_per_second:,} new ones per second, role {load.role.value}"
    )


def _rows(shown: list[Finding], is_whole: bool, width: int, is_coloured: bool) -> Iterable[str]:
    cells = [_cells(each) for each in shown]
    widths = [
        min(CELL_WIDTH_MAX, max(len(row[column]) for row in [TITLES, *cells]))
        for column in range(len(TITLES))
    ]
    widths[0] = VERDICT_WIDTH
    yield _line(TITLES, widths)
    group = ""
    for finding, row in zip(shown, cells, strict=True):
        if is_whole and finding.verdict.value != group:
            group = finding.verdict.value
            yield ""
        text = _line(row, widths)
        if is_coloured:
            text = _coloured(text, len(row[0]), finding.verdict)
        yield text
        yield from _below(finding, is_whole, width)
        if not is_whole:
            yield ""
    if is_whole:
        yield ""


def _cells(finding: Finding) -> tuple[str, str, str, str]:
    value, default = finding.value, finding.default
    return (
        finding.verdict.value,
        finding.name,
        NOTHING if value is None else value or '""',
        default or NOTHING,
    )


def _line(cells: Iterable[str], widths: list[int]) -> str:
    """Write a row; a cell that is too wide is not truncated, but shifts the others."""
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return GAP.join(padded).rstrip()


def _below(finding: Finding, is_whole: bool, width: int) -> Iterable[str]:
    indent = " " * (VERDICT_WIDTH + len(GAP))
    parts = [finding.why]
    if is_whole or finding.verdict is Verdict.LIMITS:
        parts.append(finding.does)
    if finding.fix:
        parts.append(f"-> {finding.fix}")
    elif is_whole and finding.verdict is not Verdict.FINE:
        parts.append(f"-> {finding.advice}")
    for part in filter(None, parts):
        yield from textwrap.wrap(
            part,
            width,
            initial_indent=indent,
            subsequent_indent=indent + (" " * 3 if part.startswith("-> ") else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _coloured(text: str, length: int, verdict: Verdict) -> str:
    return f"\x1b[{COLOURS[verdict]}m{text[:length]}\x1b[0m{text[length:]}"


def _is_shown(finding: Finding) -> bool:
    """Return whether a row is shown without --all: it limits, or there is no server to examine."""
    is_missing = finding.verdict is Verdict.UNKNOWN and finding.group == SERVER_GROUP
    return is_missing or finding.verdict is Verdict.LIMITS


def _summary(examination: Examination, is_whole: bool) -> str:
    counts = examination.counts
    number = counts[Verdict.LIMITS]
    first = f"{number or 'no'} limit{'' if number == 1 else 's'}"
    others = ", ".join(
        f"{counts[verdict]} {verdict.value}" for verdict in Verdict if verdict != Verdict.LIMITS
    )
    return f"{first}; {others}" + ("" if is_whole else " (--all shows every row)")
