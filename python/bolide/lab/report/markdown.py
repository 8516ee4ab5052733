"""The report as Markdown: for a README, an issue, a diff."""

from __future__ import annotations

import re
from html import escape

from bolide.lab.report import claims, document_tables, fleet, level_tables, open_loop, quantity
from bolide.lab.report.page import TITLE, facts_of, machine_rows
from bolide.lab.report.requirement import rows as requirement_rows
from bolide.lab.report.summary import Group, Race, Result
from bolide.lab.report.table import Cell, Line, Table, league
from bolide.lab.stats.interval import ROUNDS_MIN
from bolide.lab.visible import visible

CODE = "code"
"""The kind of a cell with a command."""
MARKUP = re.compile(
    r"[\\`|\[\]]"  # anywhere
    r"|(?<=\S)\*|\*(?=\S)|(?<!\w)_|_(?!\w)|~(?=~)"  # at the edge of a word
    r"|^[#*+=>-]"  # at the start of a block
)
"""What Markdown reads as markup."""
HTML = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
"""Where it reads the start of a tag or an entity."""
NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""What it reads as an item of a list."""


def inline(text: str) -> str:
    """Return a text as Markdown that shows it as it is: no markup, no HTML, a single line."""
    text = MARKUP.sub(r"\\\g<0>", HTML.sub(lambda found: escape(found[0]), visible(text).strip()))
    return NUMBERED.sub(r"\1\\\2", text)


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    text = visible(text).replace("|", "\\|")
    fence = "`" * (1 + max((len(each) for each in re.findall("`+", text)), default=0))
    space = " " * (text[:1] == "`" or text[-1:] == "`")
    return f"{fence}{space}{text}{space}{fence}"


def render(race: Race, pictures: dict[str, dict[str, str]]) -> str:
    """Return the report; `pictures` are files with their descriptions, by study."""
    is_single = len(race.results) == 1
    parts = [f"# {inline(race.results[0].study.title if is_single else TITLE)}"]
    if race.warning:
        parts.append(f"**{inline(race.warning)}**")
    for result in race.results:
        parts += [] if is_single else [f"## {inline(result.study.title)}"]
        parts += _study(result, pictures.get(result.study.name, {}))
    parts += [
        "## How it was measured",
        "Correct responses only. Medians over shuffled, interleaved rounds, with their range, or"
        f" from {ROUNDS_MIN} rounds on an exact interval. The ceiling is a baseline: a fixed"
        " response without parsing.",
        _pairs(facts_of(race)),
    ]
    rows = [f"- {inline(f'{title}: {text}')}" for title, text in fleet.remarks(race)]
    rows += [f"- {inline(f'{each.title}: {each.state}. {each.reason}')}" for each in race.absent]
    if rows:
        parts += ["## Not measured here", "\n".join(rows)]
    if agents := fleet.table(race):
        parts += ["## Agents", inline(fleet.sentence(race)), table(agents)]
    if race.machine:
        parts += ["## Machine", _pairs(machine_rows(race.machine))]
    parts += ["## How each contestant was started", table(_started(race))]
    return "\n\n".join(parts) + "\n"


def _started(race: Race) -> Table:
    columns = ["contestant", "version", "command", "remarks"]
    lines = [
        Line(
            [
                Cell(each.title),
                Cell(each.version or quantity.NONE),
                Cell(each.settings, kind=CODE) if each.settings else Cell(quantity.NONE),
                Cell("; ".join(each.remarks)),
            ]
        )
        for each in race.measured
    ]
    return Table(columns, lines)


def _study(result: Result, pictures: dict[str, str]) -> list[str]:
    """Return a study: the picture, the verdict, the document's table, then everything else."""
    drawn = [f"![{inline(shown)}]({name})" for name, shown in pictures.items()]
    found = [inline(f"{result.study.document}.")] if result.study.document else []
    for caption, rows in requirement_rows.tables(result):
        found += [f"### {inline(caption)}", table(rows)]
    found += [*drawn[:1], *_document(result), *_open_loop(result)]
    if len(drawn) > 1:
        found += ["### All charts", *drawn[1:]]
    for group in result.groups:
        found.append(f"### {inline(group.title)}")
        found += (
            _levels(result, group) if level_tables.has_levels(group) else _leagues(result, group)
        )
    return found


def _open_loop(result: Result) -> list[str]:
    found = []
    for caption, rows in open_loop.tables(result):
        found += [f"{inline(caption)}:", table(rows)]
    return ["### Latency at given rates", *found] if found else []


def _document(result: Result) -> list[str]:
    """Return the verdict on the document, its table with ours beside it, and its claims."""
    verdicts = claims.verdicts(result)
    found = [f"**{inline(claims.sentence(verdicts))}**"] if verdicts else []
    if document_tables.tables(result):
        found.append("### The document's table")
    for caption, rows in document_tables.tables(result):
        found += [f"{inline(caption)}:", table(rows)] if caption else [table(rows)]
    for heading, lines in document_tables.sentences(result):
        items = [
            f"- **{inline(name)}**{inline(text)}" if name else f"- {inline(text)}"
            for name, text in lines
        ]
        found += [f"{heading}:", "\n".join(items)]
    if verdicts:
        judged = [
            f"- **{inline(each.text)}**: {each.outcome}. {inline(each.evidence)}"
            for each in verdicts
        ]
        found += ["### The document's claims", "\n".join(judged)]
    return found


def _leagues(result: Result, group: Group) -> list[str]:
    found = []
    for each in group.workloads:
        if len(group.workloads) > 1:
            found.append(f"{each.connections:,} connections:")
        found.append(table(league(result, each.name)))
    return found


def _levels(result: Result, group: Group) -> list[str]:
    """Return tables over all levels, instead of one for each level."""
    found = []
    for caption, rows in level_tables.over_levels(result, group):
        found += [f"{inline(caption)}:", table(rows)]
    failures = [f"- {inline(each)}" for each in level_tables.failures(result, group)]
    return [*found, "\n".join(failures)] if failures else found


def table(found: Table) -> str:
    """Return a table; numbers are right-aligned."""
    rows = [
        _row([inline(each) for each in found.columns]),
        _row(["---:" if each else "---" for each in found.numeric]),
    ]
    rows += [_row([_cell(each) for each in line.cells]) for line in found.lines]
    return "\n".join([*rows, "", inline(found.note)] if found.note else rows)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    if cell.kind == CODE:
        return code(cell.text)
    text = f"{cell.text} ({cell.under})" if cell.under else cell.text
    return inline(text.replace("\n", " "))


def _pairs(pairs: list[tuple[str, str]]) -> str:
    rows = [_row(["", ""]), _row(["---", "---"])]
    return "\n".join([*rows, *(_row([inline(name), inline(value)]) for name, value in pairs)])
