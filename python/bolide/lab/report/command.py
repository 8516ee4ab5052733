"""The commands `bolide race report` and `bolide race compare`, which only read results."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from bolide.errors import ConfigError
from bolide.flags import FOLDER, NAMES, PERCENT
from bolide.lab.matching import fits
from bolide.lab.report.compare import (
    DRIFT_MAX,
    THRESHOLD,
    UNKNOWN,
    Change,
    changes,
    drift,
    overall,
)
from bolide.lab.report.summary import Race
from bolide.lab.stats.paired_test import LEVEL, ROUNDS_MIN

EXIT_SLOWER = 1


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--out", type=FOLDER, help="Folder to write to. [DIR]")
@click.option("--png", "is_png", is_flag=True, help="Also write each picture as PNG.")
def report(folder: Path, out: Path | None, is_png: bool) -> None:
    """Write report.html, report.md and pictures of the race in DIR.

    The page is one self-contained file and sends no request.
    """
    from bolide.lab.report import writing

    for path in writing.write(folder, out or folder, is_png=is_png):
        click.echo(path)


@click.command()
@click.argument("before", type=FOLDER, metavar="A")
@click.argument("after", type=FOLDER, metavar="B")
@click.option("--only", type=NAMES, default=(), help="Only these contestants (NAME or PREFIX*).")
@click.option(
    "--threshold",
    type=PERCENT,
    default=THRESHOLD,
    help=f"Treat smaller changes as no change. [{THRESHOLD:.0%}]",
)
@click.option("--floor", type=FOLDER, help="Race with --aa: no change below its floor.")
@click.option("--of-ceiling", "is_relative", is_flag=True, help="Compare shares of the ceiling.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    before: Path,
    after: Path,
    only: tuple[str, ...],
    threshold: float,
    floor: Path | None,
    is_relative: bool,
    as_json: bool,
) -> None:
    """Report what is faster or slower in race B than in race A.

    A change counts if the median of B/A, round by round, exceeds the threshold and an exact test of
    the paired rounds finds it, corrected for the number of rows. In what else the races differ is
    reported too.

    A row of which most rounds were noisy is unknown: other work took processor time.

    The exit code is 1 if something is slower or fails, 2 for invalid arguments, otherwise 0.
    """
    from bolide.lab.report.conditions import check_loads, differences
    from bolide.lab.report.writing import read

    least = threshold
    if floor is not None:
        measured = read(floor).floor
        if measured is None:
            raise ConfigError(f"{floor} has no contestant twice: run it with --aa")
        least = max(least, measured)
    one, two = read(before), read(after)
    found = changes(one, two, threshold=least, is_relative=is_relative, only=only)
    for wanted in only:
        if not any(fits(each.contestant, wanted) for each in found):
            raise ConfigError(f"the races do not have {wanted!r} in common")
    if not found:
        raise ConfigError("the races have no contestant and workload in common")
    check_loads(one, two, found)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        click.echo("\n".join(_page(found)))
    for said in _doubts(one, two, is_relative=is_relative):
        click.echo(said, err=as_json)
    if others := differences(one, two, found):
        click.echo(
            f"B differs from A, which may look like a change: {'; '.join(others)}", err=as_json
        )
    sys.exit(EXIT_SLOWER if any(each.is_bad for each in found) else 0)


def _page(found: list[Change]) -> list[str]:
    from bolide.lab.report import quantity

    rows = [("study", "workload", "contestant", "A", "B", "B/A", "p", "interval", "")]
    for each in found:
        ratio = each.ratio
        ends = "–"
        if ratio and ratio.low is not None and ratio.high is not None:
            ends = f"{ratio.low:.3f}…{ratio.high:.3f}"
        rows.append(
            (
                each.study,
                each.workload,
                each.contestant,
                quantity.count(each.before and each.before.middle),
                quantity.count(each.after and each.after.middle),
                f"{ratio.middle:.3f}" if ratio else quantity.NONE,
                quantity.NONE if each.p_value is None else f"{each.p_value:.3f}",
                ends,
                f"{each.verdict}, noisy" if each.is_noisy else each.verdict,
            )
        )
    columns = range(len(rows[0]))
    widths = [max(len(row[n]) for row in rows) for n in columns]
    lines = ["  ".join(_set(row[n], widths[n], n) for n in columns).rstrip() for row in rows]
    mean = overall(found)
    counts = ", ".join(
        f"{sum(each.verdict == verdict for each in found)} {verdict}"
        for verdict in dict.fromkeys(each.verdict for each in found)
    )
    lines += [
        "",
        f"{counts}; geometric mean of B/A: {quantity.NONE if mean is None else f'{mean:.3f}'}",
    ]
    if any(each.p_value is not None for each in found):
        lines.append(
            f"p: corrected for {len(found)} row{'s' * (len(found) > 1)}; a change needs"
            f" {LEVEL} or less"
        )
    if labels := sorted({each.ratio.label for each in found if each.ratio and each.ratio.label}):
        lines.append(f"interval of B/A: {', '.join(labels)}")
    if any(each.verdict == UNKNOWN for each in found):
        lines.append(
            f"unknown: the test needs {ROUNDS_MIN} rounds that both races have, and most of them"
            " quiet"
        )
    return lines


def _doubts(before: Race, after: Race, *, is_relative: bool) -> list[str]:
    """Return what may look like a change of a server: a machine that changed, or was busy."""
    said = [] if is_relative else [_of_drift(drift(before, after))]
    races = (("A", before), ("B", after))
    return said + [f"{name}: {race.warning}" for name, race in races if race.warning]


def _of_drift(found: float | None) -> str:
    """Return what the ceiling says about the machine in the two races."""
    if found is None:
        return (
            "without the ceiling in both races, a machine that was faster or slower in B looks"
            " like a change"
        )
    said = f"ceiling: B/A {found:.3f}"
    if max(found, 1 / found) - 1 <= DRIFT_MAX:
        return said
    return f"{said}: the machine differed, which looks like a change; --of-ceiling removes that"


def _set(text: str, width: int, column: int) -> str:
    return text.rjust(width) if column in (3, 4, 5, 6) else text.ljust(width)
