"""Charts as files for a README: SVG, and PNG if `resvg-py` is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

from bolide.errors import ConfigError
from bolide.lab.report import charts
from bolide.lab.report.drawing import svg
from bolide.lab.report.summary import Group, Race, Result

CHARTS = ("rate", "p99", "latency")
"""Which charts become files."""
SCALE = 2
"""Pixels of a PNG per unit of the picture."""


def write(race: Race, folder: Path, *, is_png: bool = False) -> dict[str, dict[str, str]]:
    """Write the pictures of every study; return the SVG files and their descriptions, by study.

    A load without any figure has no picture.

    Raises:
        ConfigError: PNG is wanted, and the package that makes it is missing.
    """
    convert = _converter() if is_png else None
    colours = svg.classes(race.measured)
    found: dict[str, dict[str, str]] = {}
    for result in race.results:
        for group in charts.in_order(result):  # the first picture is on top
            if not any(each.rate for w in group.workloads for each in result.of(w.name)):
                continue
            for chart in charts.of_group(result, group, colours):
                if chart.key not in CHARTS:
                    continue
                name = f"{result.study.name}-{group.workloads[0].name}-{chart.key}"
                title, note = f"{chart.title}: {result.study.title}", _note(race, result, group)
                file = folder / f"{name}.svg"
                file.write_text(svg.standalone(chart.wide, title, note), encoding="utf-8")
                shown = f"{chart.title}: {group.title}"
                found.setdefault(result.study.name, {})[file.name] = shown
                if convert:
                    plain = svg.standalone(chart.wide, title, note, is_png=True)
                    data = bytes(convert(svg_string=plain, zoom=SCALE))
                    file.with_suffix(".png").write_bytes(data)
    return found


def _note(race: Race, result: Result, group: Group) -> str:
    rounds = max(figure.rounds for figure in result.figures.values())
    times = f"median of {rounds} rounds" if rounds > 1 else "one round"
    note = f"{group.title}; {times}, loopback"
    if race.machine and race.machine.cpu_model:
        note += f"; {race.machine.cpu_model}"
    return note


def _converter() -> Callable[..., Iterable[int]]:
    try:
        found: Callable[..., Iterable[int]] = importlib.import_module("resvg_py").svg_to_bytes
    except ImportError:
        raise ConfigError("--png needs the package resvg-py: pip install 'bolide[lab]'") from None
    return found
