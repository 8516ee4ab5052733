"""Writes families of numbers as OpenMetrics text (the specification's version 1.0).

Collectors that do not read that get Prometheus' own text, version 0.0.4, whose families have the
names of their samples, and which has neither units nor an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from bolide.server.management.counts import NANOSECONDS, Family

OPENMETRICS = "application/openmetrics-text"
CONTENT_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
PLAIN = "text/plain"
PLAIN_CONTENT_TYPE = f"{PLAIN}; version=0.0.4; charset=utf-8"
PLAIN_KINDS = {"info": "gauge"}
SUFFIXES = {"counter": "_total", "gauge": "", "info": "_info"}


def text(families: Iterable[tuple[Family, Sequence[float]]]) -> str:
    """Return the text of all families."""
    lines = [line for family, numbers in families for line in _lines(family, numbers)]
    return "\n".join([*lines, "# EOF", ""])


def plain_text(families: Iterable[tuple[Family, Sequence[float]]]) -> str:
    """Return the text of all families for collectors that do not read OpenMetrics."""
    lines: list[str] = []
    for family, numbers in families:
        name = family.name + SUFFIXES.get(family.kind, "")
        explained = family.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {name} {explained}"]
        lines += [f"# TYPE {name} {PLAIN_KINDS.get(family.kind, family.kind)}"]
        lines += _samples(family, numbers)
    return "\n".join([*lines, ""])


def wants_plain(accept: str) -> bool:
    """Return whether a request wants that, by its field `Accept`."""
    wanted = {each.partition(";")[0].strip().lower() for each in accept.split(",")}
    return PLAIN in wanted and OPENMETRICS not in wanted


def _lines(family: Family, numbers: Sequence[float]) -> list[str]:
    lines = [f"# TYPE {family.name} {family.kind}"]
    if family.unit:
        lines.append(f"# UNIT {family.name} {family.unit}")
    lines.append(f"# HELP {family.name} {_escaped(family.help)}")
    return lines + _samples(family, numbers)


def _samples(family: Family, numbers: Sequence[float]) -> list[str]:
    lines: list[str] = []
    per_series = len(numbers) // len(family.series())
    for index, labels in enumerate(family.series()):
        own = numbers[index * per_series : (index + 1) * per_series]
        if family.kind == "histogram":
            lines += _histogram(family, labels, own)
        else:
            lines.append(_sample(family.name + SUFFIXES[family.kind], labels, own[0]))
    return lines


def _histogram(family: Family, labels: Mapping[str, str], numbers: Sequence[float]) -> list[str]:
    *buckets, total = numbers
    counts = list(accumulate(buckets))
    bounds = [*map(_number, family.bounds), "+Inf"]
    return [
        *(
            _sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
            for bound, count in zip(bounds, counts, strict=True)
        ),
        _sample(f"{family.name}_count", labels, counts[-1]),
        _sample(f"{family.name}_sum", labels, total * NANOSECONDS),
    ]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(it)}"' for label, it in labels.items())
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _number(value: float) -> str:
    """Format a number, to a nanosecond; bounds have a point, as OpenMetrics wants them."""
    return str(value if isinstance(value, int) else round(value, 9))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
