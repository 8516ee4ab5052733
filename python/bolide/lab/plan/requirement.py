"""What the contestants of a study must reach: its tables [turns] and [[row]]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from bolide.lab.record.schema import Measure, Requirement

Positive: TypeAlias = Annotated[float, Meta(gt=0, le=1e15)]
IN_BYTES = ("memory at start", "memory each")
"""Measures that are judged by their value, not as a ratio."""


class Turns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table [turns] of a study's file: servers run at the same time and are loaded in turns."""

    seconds: Annotated[float, Meta(ge=0.05, le=60)] = 0.5
    """Length of a turn, at least what a tool takes to start; the study's duration_s is that of all
    turns of a round."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A [[row]]: a contestant at a workload, and the ratios to others that it must reach."""

    title: str
    contestant: str
    workload: str
    measure: Measure = "rate"
    at_least: Mapping[str, Positive] = {}
    at_most: Mapping[str, Positive] = {}
    shown: tuple[str, ...] = ()
    """Contestants to which the ratio is only shown."""
    bytes_at_most: Positive | None = None


def of_rows(rows: Iterable[Row]) -> tuple[Requirement, ...]:
    """Return the requirements of all rows, one for each ratio."""
    return tuple(each for row in rows for each in _of_row(row))


def _of_row(row: Row) -> Iterator[Requirement]:
    alike = Requirement(
        title=row.title, contestant=row.contestant, workload=row.workload, measure=row.measure
    )
    if row.bytes_at_most is not None:
        yield msgspec.structs.replace(alike, at_most=row.bytes_at_most)
    for name, ratio in row.at_least.items():
        yield msgspec.structs.replace(alike, against=name, at_least=ratio)
    for name, ratio in row.at_most.items():
        yield msgspec.structs.replace(alike, against=name, at_most=ratio)
    for name in row.shown:
        yield msgspec.structs.replace(alike, against=name)


def refusal(row: Row, runners: Mapping[str, frozenset[str]]) -> str:
    """Return why a row cannot be judged; "" if it can. `runners` are those of each workload."""
    if row.workload not in runners:
        return f"there is no workload {row.workload!r}"
    ratios = (*row.at_least, *row.at_most, *row.shown)
    for name in (row.contestant, *ratios):
        if name not in runners[row.workload]:
            return f"{name!r} does not run {row.workload!r}"
    if (row.measure in IN_BYTES) != (row.bytes_at_most is not None):
        return f"bytes_at_most is for {' and '.join(map(repr, IN_BYTES))}, and needed there"
    if not ratios and row.bytes_at_most is None:
        return "it has no ratio"
    return ""
