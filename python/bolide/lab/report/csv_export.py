"""All figures of a race as comma-separated values (RFC 4180): plain numbers, empty if unknown."""

from __future__ import annotations

from bolide.lab.report.summary import Figure, Race, Result
from bolide.lab.visible import visible

COLUMNS = (
    "requests_per_s,low,high,coverage,of_ceiling,p50_us,p99_us,max_us,connections_served,"
    "connections_starved,fairness,in_flight,cpu_us_per_request,energy_uj_per_request,memory_bytes,"
    "server_cpu_share,server_switches_per_request,generator_cpu_share,generator_memory_bytes,"
    "generator_switches_per_request,failed"
)

FORMULA = ("=", "+", "-", "@")
QUOTED = {*',"'}


def csv(race: Race) -> str:
    """Return the table, with a line for each contestant at each workload."""
    lines = [f"study,workload,contestant,{COLUMNS},verdict"]
    for result in race.results:
        for (workload, name), figure in (*result.figures.items(), *result.open_loop.items()):
            cells = ["" if each is None else f"{each:.10g}" for each in _values(result, figure)]
            texts = map(field, (result.study.name, workload, name))
            lines.append(",".join([*texts, *cells, figure.verdict]))
    return "\n".join(lines) + "\n"


def field(text: str) -> str:
    """Return a text as a field. A spreadsheet shows it, and does not compute it as a formula."""
    text = visible(text)
    if text.startswith(FORMULA):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if QUOTED & {*text} else text


def _values(result: Result, figure: Figure) -> list[float | None]:
    rate, of, served = figure.rate, result.of_ceiling(figure), figure.served
    return [
        rate and rate.middle,
        rate and rate.low,
        rate and rate.high,
        rate and rate.coverage,
        of and of.middle,
        *(figure.latency_us.get(rank) for rank in ("p50", "p99", "max")),
        *((served.connections, served.starved, served.fairness) if served else [None] * 3),
        figure.in_flight,
        *_uses(figure),
        figure.failed,
    ]


def _uses(figure: Figure) -> list[float | None]:
    """Return what server and generator used; unknown for a search for the highest rate.

    It was measured over all rates that the search tried, the responses are those of one of them.
    """
    cpu, energy = figure.cpu_us_per_request, figure.energy_uj_per_request
    found = [
        cpu and cpu.middle,
        energy and energy.middle,
        figure.memory_bytes,
        figure.server_cpu,
        figure.switches_per_request,
        figure.generator_cpu,
        figure.generator_memory_bytes,
        figure.generator_switches_per_request,
    ]
    return [None] * len(found) if figure.workload.finds else found
