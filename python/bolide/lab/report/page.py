"""The report as one self-contained HTML page, which sends no request.

Its Content-Security-Policy forbids every request, so that a mistake cannot send one either. The
template is `assets/page.html`; what it shows is collected here.
"""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

import msgspec

from bolide.errors import ConfigError
from bolide.lab.record.schema import CORE_PART, Contestant, Machine
from bolide.lab.report import (
    charts,
    claims,
    document_tables,
    fleet,
    level_tables,
    open_loop,
    quantity,
)
from bolide.lab.report.csv_export import csv
from bolide.lab.report.drawing import svg
from bolide.lab.report.requirement import rows
from bolide.lab.report.summary import Group, Race, Result, tool_title
from bolide.lab.report.table import HINTS, Cell, league
from bolide.lab.stats.interval import ROUNDS_MIN

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = ("page.js", "evidence.js")
TITLE = "HTTP servers, side by side"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def render(race: Race, raw: bytes) -> str:
    """Return the page; `raw` are its results, which it shows as evidence and offers as a file.

    Raises:
        ConfigError: the package that fills the template is missing.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ConfigError(
            "the report's page needs the package jinja2: pip install 'bolide[lab]'"
        ) from None
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    colours = svg.classes(race.measured)
    return (
        environment.get_template("page.html")
        .render(
            swatch=svg.swatch,
            policy=POLICY,
            style=_style(),
            script="".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS),
            title=race.results[0].study.title if len(race.results) == 1 else TITLE,
            attributes=_attributes,
            hints=HINTS,
            warning=race.warning,
            rounds_min=ROUNDS_MIN,
            facts=facts_of(race),
            studies=[_study(result, colours) for result in race.results],
            kinds=list(
                dict.fromkeys(each.interface for each in race.measured if each.role != "ceiling")
            ),
            contestants=[_filtered(each, colours) for each in race.measured],
            absent=race.absent,
            remarks=fleet.remarks(race),
            fleet=fleet.sentence(race),
            agents=fleet.table(race),
            machine=machine_rows(race.machine) if race.machine else [],
            kernel=_kernel_rows(race.machine) if race.machine else [],
            trials=_packed(_without_histograms(raw)),
            csv=_packed(csv(race).encode()),
            started=race.measured,
        )
        .lstrip()
    )


def _attributes(cell: Cell) -> dict[str, str | None]:
    """Return a cell's attributes: what sorts it, whose it is, and a tooltip if it has no evidence.

    The page's script sorts plain numbers by their text.
    """
    is_plain = cell.text.replace(",", "").isdigit()
    return {
        "data-v": None if cell.value is None or is_plain else f"{cell.value:.6g}",
        "data-k": cell.contestant or None,
        "title": cell.title if "struck" in cell.kind else None,
    }


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def _without_histograms(raw: bytes) -> bytes:
    """Return the records without histograms, which are most of their size, and rounded."""
    found = []
    for line in raw.splitlines():
        record = msgspec.json.decode(line)
        record.pop("histogram", None)
        found.append(msgspec.json.encode(_rounded(record)))
    return b"\n".join(found) + b"\n"


def _rounded(value: Any) -> Any:
    """Return a record with its numbers to six digits, which compress to half of their size."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items() if each is not None}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _style() -> str:
    dark = "@media(prefers-color-scheme:dark){" + svg.rules(is_dark=True) + "}"
    return (
        (ASSETS / "page.css").read_text(encoding="utf-8")
        + svg.SHAPES
        + svg.rules(is_dark=False)
        + dark
    )


def facts_of(race: Race) -> list[tuple[str, str]]:
    """Return the main facts about the race."""
    trials = race.trials
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
        ("Measured", race.measured_at),
        *found,
        ("Tools", ", ".join(sorted(tools))),
        ("Processor", f"{cores}{machine.cpu_model or 'unknown'}"),
        ("Memory", quantity.size(machine.memory_bytes)),
        ("Kernel", machine.kernel or "unknown"),
        ("Virtualisation", machine.virtualisation or "none known"),
        ("Path", fleet.path_of(race)),
    ]


def _filtered(contestant: Contestant, colours: dict[str, str]) -> dict[str, str]:
    """Return a contestant's button in the filter, and the text that a search finds."""
    words = (contestant.name, contestant.title, contestant.interface, contestant.language)
    return {
        "name": contestant.name,
        "title": contestant.title,
        "kind": "ceiling" if contestant.role == "ceiling" else contestant.interface,
        "text": " ".join(words).lower(),
        "colour": colours[contestant.name],
    }


def _study(result: Result, colours: dict[str, str]) -> dict[str, Any]:
    study = result.study
    seconds = f" of {study.duration_s:g}\u00a0s" if study.duration_s else ""
    rounds = max(figure.rounds for figure in result.figures.values())
    turns = f" in {study.turns} turns" if study.turns > 1 else ""
    about = f"{study.document}. " if study.document else ""
    verdicts = claims.verdicts(result)
    return {
        "name": study.name,
        "title": study.title,
        "about": f"{about}Rounds: {rounds}{seconds}{turns}.",
        "pictures": charts.opening(result, colours),
        "verdict": claims.sentence(verdicts),
        "claims": verdicts,
        "tables": document_tables.tables(result),
        "sentences": document_tables.sentences(result),
        "requirements": rows.tables(result),
        "open_loop": open_loop.tables(result),
        "groups": [_group(result, group, colours) for group in result.groups],
    }


def _group(result: Result, group: Group, colours: dict[str, str]) -> dict[str, Any]:
    return {
        "title": group.title,
        "charts": charts.of_group(result, group, colours),
        "leagues": [
            (each.name, f"{each.connections:,}", league(result, each.name))
            for each in group.workloads
        ],
        "over_levels": level_tables.over_levels(result, group),
    }


def _kernel_rows(machine: Machine) -> list[tuple[str, str]]:
    return [*machine.sysctls.items(), *((name, f"{n:,}") for name, n in machine.limits.items())]


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Return the description of the machine, without settings and limits."""
    return [
        ("Processor", machine.cpu_model or "unknown"),
        ("Processors", quantity.count(machine.cpus)),
        ("The servers' processors", _processors(machine.server_cpus)),
        ("The load's processors", _of_load(machine)),
        *([("Processors of one core", _cores(machine))] if machine.shared_cores else []),
        ("Memory", quantity.size(machine.memory_bytes)),
        *([("System", machine.distribution)] if machine.distribution else []),
        ("Kernel", machine.kernel or "unknown"),
        ("Virtualisation", machine.virtualisation or "none known"),
        ("Python", machine.python),
        ("Bolide", _build_of(machine)),
        ("Last started", machine.started_at),
    ]


def _cores(machine: Machine) -> str:
    """Return which processors are threads of one core."""
    cores = machine.shared_cores or ()
    return "; ".join(", ".join(map(str, each)) for each in cores)


def _build_of(machine: Machine) -> str:
    """Return Bolide's version and, if known, which core library was measured."""
    version = machine.bolide_version or "unknown"
    core = (machine.parts or {}).get(CORE_PART)
    return f"{version}, core library {core}" if core else version


def _of_load(machine: Machine) -> str:
    """Return the processors of the load; agents on other machines have others."""
    if machine.fleet is None or machine.fleet.is_local:
        return _processors(machine.load_cpus)
    return "those of the agents"


def _processors(found: tuple[int, ...] | None) -> str:
    return "unknown" if found is None else ", ".join(map(str, found))
