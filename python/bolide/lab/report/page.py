"""The report as one self-contained HTML page, which sends no request.

Its Content-Security-Policy forbids every request, so that a mistake cannot send one either.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable
from html import escape
from pathlib import Path

from bolide.lab.record.schema import Contestant, Machine
from bolide.lab.report import charts, open_loop, quantity, study_tables, svg
from bolide.lab.report.csv_export import csv
from bolide.lab.report.summary import Group, Race, Result, tool_title
from bolide.lab.report.table import Cell, Line, Table, league
from bolide.lab.stats.interval import ROUNDS_MIN

ASSETS = Path(__file__).with_name("assets")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
FULL = ("rate", "latency")
"""Charts that take the whole width."""


def render(race: Race, raw: bytes) -> str:
    """Return the page; `raw` are its results, which it offers as a download."""
    colours = svg.classes(race.measured)
    style = (
        (ASSETS / "page.css").read_text()
        + svg.SHAPES
        + svg.rules(is_dark=False)
        + "@media(prefers-color-scheme:dark){"
        + svg.rules(is_dark=True)
        + "}"
    )
    script = "".join((ASSETS / name).read_text() for name in ("axis.js", "page.js"))
    sections = "".join(_study(n, result, colours) for n, result in enumerate(race.results))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><title>Bolide race</title>'
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f"{_head(race)}{_filter(race, colours)}<main>{sections}</main>{_foot(race, raw)}"
        f"<script>{script}</script></body></html>\n"
    )


def _tag(name: str, content: str, **attributes: str) -> str:
    more = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{more}>{content}</{name}>"


def _head(race: Race) -> str:
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts_of(race)
    )
    links = "".join(
        f'<a href="#study-{n}">{escape(result.study.title)}</a>'
        for n, result in enumerate(race.results)
    )
    return (
        "<header><h1>HTTP servers, side by side</h1>"
        '<p class="quiet">Correct responses only. Medians over shuffled, interleaved rounds,'
        f" with their range, or from {ROUNDS_MIN} rounds on an exact interval. The ceiling is a"
        " baseline: a fixed response without parsing."
        f'</p><dl class="facts">{facts}</dl>'
        f'<nav class="studies" aria-label="Studies">{links}</nav></header>'
    )


def facts_of(race: Race) -> list[tuple[str, str]]:
    """Return the main facts about the race."""
    trials = [t for r in race.results for f in r.figures.values() for t in f.trials]
    lost = sum(not each.is_valid for each in trials)
    found = [
        ("Contestants", str(len(race.measured))),
        (
            "Trials",
            f"{len(trials):,}, {lost:,} of them without a figure" if lost else f"{len(trials):,}",
        ),
    ]
    machine = race.machine
    if machine is None:
        return [*found, ("Machine", "not recorded")]
    tools = {f"{tool_title(t.tool)} {t.tool_version or ''}".strip() for t in trials}
    cores = f"{machine.cpus} × " if machine.cpus else ""
    return [
        ("Measured", machine.started_at.replace("T", " ")[:16] + " UTC"),
        *found,
        ("Tools", ", ".join(sorted(tools))),
        ("Processor", f"{cores}{machine.cpu_model or 'unknown'}"),
        ("Memory", quantity.size(machine.memory_bytes)),
        ("Kernel", machine.kernel or "unknown"),
        ("Virtualisation", machine.virtualisation or "none known"),
        ("Path", "loopback: no network"),
    ]


def _filter(race: Race, colours: dict[str, str]) -> str:
    contestants = race.measured
    kinds = dict.fromkeys(each.interface for each in contestants if each.role != "ceiling")
    buttons = "".join(
        _tag("button", escape(kind or "all"), type="button", data_kind=kind, aria_pressed=pressed)
        for kind, pressed in [("", "true"), *((kind, "false") for kind in kinds)]
    ).replace("data_kind", "data-kind")
    toggles = "".join(
        f'<li><button type="button" aria-pressed="true" data-name="{escape(each.name)}"'
        f' data-kind="{escape("ceiling" if each.role == "ceiling" else each.interface)}"'
        f' data-text="{escape(_searchable(each))}">'
        f"{svg.swatch(colours[each.name])}{escape(each.title)}</button></li>"
        for each in contestants
    )
    return (
        '<div class="filter" role="search"><div>'
        '<input id="search" type="search" placeholder="Filter: name, language, interface"'
        ' aria-label="Filter contestants">'
        f'<span class="kinds">{buttons.replace("aria_pressed", "aria-pressed")}</span>'
        f'<span class="quiet" id="shown" aria-live="polite">{len(contestants)}</span>'
        f'<details class="legend"><summary>Contestants</summary><ul>{toggles}</ul></details>'
        "</div></div>"
    )


def _searchable(contestant: Contestant) -> str:
    return (
        f"{contestant.name} {contestant.title} {contestant.interface} {contestant.language}".lower()
    )


def _study(place: int, result: Result, colours: dict[str, str]) -> str:
    study = result.study
    groups = "".join(
        _group(f"{place}-{n}", result, group, colours) for n, group in enumerate(result.groups)
    )
    seconds = f" of {study.duration_s:g}\u00a0s" if study.duration_s else ""
    rounds = max(len(figure.trials) for figure in result.figures.values())
    about = f"{study.document}. " if study.document else ""
    return (
        f'<section id="study-{place}"><h2>{escape(study.title)}</h2>'
        f'<p class="quiet">{escape(about)}Rounds: {rounds}{seconds}.</p>'
        f"{groups}{_open_loop(result)}{_document(result)}</section>"
    )


def _open_loop(result: Result) -> str:
    blocks = "".join(
        f"<h4>{escape(caption)}</h4>{table(each)}" for caption, each in open_loop.tables(result)
    )
    return f"<h3>Latency at given rates</h3>{blocks}" if blocks else ""


def _group(key: str, result: Result, group: Group, colours: dict[str, str]) -> str:
    drawn = "".join(
        f'<figure class="{"full" if chart.key in FULL else "half"}"><h4>{escape(chart.title)}</h4>'
        + (f'<div class="wide">{chart.wide}</div>' if chart.key in FULL else "")
        + f'<div class="narrow">{chart.narrow}</div>{_legend(chart)}</figure>'
        for chart in charts.of_group(result, group, colours)
    )
    choice = ""
    if len(group.workloads) > 1:
        options = "".join(
            _tag("option", f"{each.connections:,}", value=each.name) for each in group.workloads
        )
        select = f'<select data-levels="{key}">{options}</select>'
        choice = f"<p hidden><label>Connections: {select}</label></p>"
    leagues = "".join(
        f'<div data-level-of="{key}" data-level="{escape(each.name)}">'
        f"{table(league(result, each.name))}</div>"
        for each in group.workloads
    )
    section = f'<h3>{escape(group.title)}</h3><div class="charts">{drawn}</div>'
    return f"{section}{choice}{leagues}{_over_levels(result, group)}"


def _over_levels(result: Result, group: Group) -> str:
    blocks = "".join(
        f"<h4>{escape(caption)}</h4>{table(each)}"
        for caption, each in study_tables.over_levels(result, group)
    )
    summary = "<summary>All levels, a table for each figure</summary>"
    return f'<details class="more">{summary}{blocks}</details>' if blocks else ""


def _legend(chart: charts.Chart) -> str:
    """Return the legend of a chart's lines, which have names beside them only in wide charts."""
    names = "".join(
        f'<span data-c="{escape(name)}">{svg.swatch(kind)}{escape(title)}</span>'
        for name, title, kind in chart.legend
    )
    return f'<figcaption class="key">{names}</figcaption>' if names else ""


def table(found: Table) -> str:
    """Return a table that can be sorted by its headings."""
    numeric = [
        any("num" in line.cells[n].kind for line in found.lines) for n in range(len(found.columns))
    ]
    heads = "".join(
        f'<th scope="col" aria-sort="none"{" class=num" if numeric[n] else ""}'
        f' title="{escape(found.hints.get(name, ""))}">{escape(name)}</th>'
        for n, name in enumerate(found.columns)
    )
    rows = "".join(_row(each) for each in found.lines)
    head = f"<thead><tr>{heads}</tr></thead>"
    note = f'<p class="quiet">{escape(found.note)}</p>' if found.note else ""
    return f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>{note}'


def _row(found: Line) -> str:
    name = f' data-c="{escape(found.name)}"' if found.name else ""
    return f'<tr class="{found.kind}"{name}>{"".join(_cell(each) for each in found.cells)}</tr>'


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-v="{cell.value}"'
    title = f' title="{escape(cell.title)}"' if cell.title else ""
    under = f'<span class="under">{escape(cell.under)}</span>' if cell.under else ""
    return f'<td class="{cell.kind}"{value}{title}>{escape(cell.text)}{under}</td>'


def _document(result: Result) -> str:
    found = study_tables.tables(result)
    if not found:
        return ""
    blocks = "".join(
        (f"<h4>{escape(caption)}</h4>" if caption else "") + table(each) for caption, each in found
    )
    sections = ""
    for heading, lines in study_tables.sentences(result):
        rows = (
            f"<li>{f'<b>{escape(name)}</b>' if name else ''}{escape(text)}</li>"
            for name, text in lines
        )
        sections += f'<h4>{heading}</h4><ul class="objections">{"".join(rows)}</ul>'
    return (
        "<h3>The document's table</h3>"
        '<p class="quiet">Published figures are from other machines'
        " and other versions: only the ratios to the ceiling can be compared.</p>"
        f"{blocks}{sections}"
    )


def _foot(race: Race, raw: bytes) -> str:
    data = base64.b64encode(gzip.compress(raw, mtime=0)).decode()
    figures = base64.b64encode(csv(race).encode()).decode()
    absent = "".join(
        f"<tr><td>{escape(each.title)}</td><td>{escape(each.state)}</td>"
        f"<td>{escape(each.reason)}</td></tr>"
        for each in race.absent
    )
    missing = (
        '<h3>Not measured here</h3><div class="scroll"><table class="machine"><tbody>'
        f"{absent}</tbody></table></div>"
    )
    return (
        f"<footer>{missing if absent else ''}{_machine(race.machine)}<h3>Data</h3><p>"
        f'<a download="results.jsonl.gz" href="data:application/gzip;base64,{data}">'
        "Raw results (JSON lines, gzip)</a> · "
        f'<a download="league.csv" href="data:text/csv;base64,{figures}">All figures (CSV)</a></p>'
        f"{_settings(race.measured)}</footer>"
    )


def _machine(machine: Machine | None) -> str:
    if machine is None:
        return ""
    return (
        f"<h3>Machine</h3>{_pairs(machine_rows(machine))}"
        f'<details class="more"><summary>Kernel settings and limits</summary>'
        f"{_pairs([*machine.sysctls.items(), *((k, f'{v:,}') for k, v in machine.limits.items())])}"
        "</details>"
    )


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Return the description of the machine, without settings and limits."""
    return [
        ("Processor", machine.cpu_model or "unknown"),
        ("Processors", quantity.count(machine.cpus)),
        ("The servers' processors", _processors(machine.server_cpus)),
        ("The load's processors", _processors(machine.load_cpus)),
        ("Memory", quantity.size(machine.memory_bytes)),
        *([("System", machine.distribution)] if machine.distribution else []),
        ("Kernel", machine.kernel or "unknown"),
        ("Virtualisation", machine.virtualisation or "none known"),
        ("Python", machine.python),
        ("Bolide", machine.bolide_version or "unknown"),
        ("Started", machine.started_at),
    ]


def _processors(found: tuple[int, ...] | None) -> str:
    return "unknown" if found is None else ", ".join(map(str, found))


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in pairs)
    return f'<div class="scroll"><table class="machine"><tbody>{rows}</tbody></table></div>'


def _settings(contestants: list[Contestant]) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.title)}</td><td><code>{escape(each.settings)}</code></td>"
        f"<td>{escape('; '.join(each.remarks))}</td></tr>"
        for each in contestants
    )
    return (
        '<details class="more"><summary>How each contestant was started</summary>'
        f'<div class="scroll"><table class="machine"><tbody>{rows}</tbody></table></div></details>'
    )
