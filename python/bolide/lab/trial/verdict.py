"""The verdict on a trial: what limited it, and what casts doubt on its figure, with evidence."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bolide.lab.record import service
from bolide.lab.record.schema import (
    GeneratorUse,
    KernelDelta,
    Served,
    ServerUse,
    Verdict,
    Workload,
)

SERVER_SHARE_MIN = 0.9
WORK_SHARE_MAX = 1.05
"""Share of the tool's time; above it, the server worked while the tool's clock was not running."""
GENERATOR_SHARE_MIN = 0.85
STEAL_SHARE_MAX = 0.01
OTHERS_SHARE_MAX = 0.1
MEMORY_WAITED_SHARE_MAX = 0.05
STALLED_REQUESTS = 2
IDLE_SHARE_MAX = 0.1
STALL_SHARE_MIN = 0.1
"""Share of the trial for which most connections waited at its end, from which on it is a stall."""
STALL_S_MIN = 0.5
"""No pause of the machine's scheduler is as long."""
STALL_FACTOR = 10
"""A stall is so many times as long as 99 % of the responses took; a queue is not."""
SERVER_SHARE_MAX = 1.05
"""Share of the server's processors; a server that used more of them ran on others. The most of all
published trials is 1.014. The kernel counts user and system time of each process in ticks."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PORTS_SHARE_MAX = 0.5


@dataclass(frozen=True)
class Observation:
    """What is known about a trial after its tool has ended."""

    workload: Workload
    ok: int
    failed: int
    errors: dict[str, int]
    seconds: float
    requests_per_s: float | None
    served: Served | None
    in_flight: float | None
    """Connections with a request in flight, by Little's law."""
    waiting_s: float | None
    """For how long half of the connections had waited for a response at the end, if known."""
    p99_us: float | None
    server: ServerUse
    server_cpus: int
    load_cpus: int | None
    """None if the load has other machines."""
    has_late_clock: bool
    """Whether the tool counts requests from before its clock starts, as some do with more threads
    than processors (`Tool`)."""
    generator: GeneratorUse
    kernel: KernelDelta
    local_ports: int | None
    """Ports that the tool's connections may use."""
    others_share: float | None
    """Share of the race's processors that neither server nor generator used."""
    is_short_of_time: bool = False
    """Whether an agent of a fleet reports that it had no processor time left."""


def judge(seen: Observation) -> tuple[Verdict, list[str]]:
    """Return the verdict, with the evidence for it and for doubts about the figure."""
    evidence = [*_limits(seen), *_noise(seen), *_queues(seen), *_service(seen)]
    total = seen.ok + seen.failed
    for reason in (_stalled, _impossible, _escaped, _starved, _silent):
        if no_figure := reason(seen):
            return "errors", [no_figure, *evidence]
    if not total:
        return "errors", ["no request got a response", *evidence]
    if not seen.ok or seen.failed / total > service.ERROR_SHARE_MAX:
        classes = ", ".join(f"{name} {count:,}" for name, count in seen.errors.items() if count)
        return "errors", [f"{seen.failed:,} of {total:,} responses failed: {classes}", *evidence]
    if _noise(seen):
        return "noisy", evidence
    if _is_generator_bound(seen):
        return "generator-bound", evidence
    return "server-bound" if _is_server_bound(seen) else "neither", evidence


def _is_server_bound(seen: Observation) -> bool:
    """Whether the server, or one thread of it, had no processor time left.

    A server with one thread cannot use a second processor.
    """
    if (seen.server.thread_share or 0) >= SERVER_SHARE_MIN:
        return True
    used = (seen.server.cpu_share or 0) + (seen.kernel.server_irq_share or 0)
    return used >= SERVER_SHARE_MIN * seen.server_cpus


def _is_generator_bound(seen: Observation) -> bool:
    """Whether a thread of the tool, or all of them together, had no processor time left.

    Many threads or processes on few processors are busy together, and none of them alone.
    """
    if seen.is_short_of_time or (seen.generator.cpu_share or 0) >= GENERATOR_SHARE_MIN:
        return True
    if seen.load_cpus is None:
        return False
    used = (seen.generator.processors or 0) + (seen.kernel.load_irq_share or 0)
    return used >= GENERATOR_SHARE_MIN * seen.load_cpus


def _limits(seen: Observation) -> list[str]:
    found = []
    if seen.server.cpu_share is not None:
        found.append(
            f"the server used {seen.server.cpu_share:.2f} of {_processors(seen.server_cpus)}"
        )
    if seen.server_cpus > 1 and seen.server.thread_share is not None:
        found.append(f"the server's busiest thread was busy {seen.server.thread_share:.0%}")
    if seen.generator.cpu_share is not None:
        found.append(f"the generator's busiest thread was busy {seen.generator.cpu_share:.0%}")
    used = seen.generator.processors
    if used is not None and seen.load_cpus is not None:
        found.append(f"the generator used {used:.2f} of {_processors(seen.load_cpus)}")
    elif used is not None:
        found.append(f"the agents used {used:.2f} processors")
    for name, share in (
        ("server", seen.kernel.server_irq_share),
        ("load", seen.kernel.load_irq_share),
    ):
        if share:
            found.append(f"interrupts used {share:.2f} of a processor of the {name}'s")
    return found


def _noise(seen: Observation) -> list[str]:
    found = []
    if (seen.kernel.steal_share or 0) > STEAL_SHARE_MAX:
        found.append(f"another guest of the host took {seen.kernel.steal_share:.1%} of the time")
    if (seen.others_share or 0) > OTHERS_SHARE_MAX:
        found.append(f"other processes took {seen.others_share:.0%} of the race's processors")
    waited = (seen.kernel.waited_share or {}).get("memory", 0.0)
    if waited > MEMORY_WAITED_SHARE_MAX:
        found.append(f"tasks waited for memory in {waited:.0%} of the time")
    return found


def _queues(seen: Observation) -> list[str]:
    found = []
    if seen.kernel.listen_overflows:
        found.append(f"the server's accept queue overflowed {seen.kernel.listen_overflows:,} times")
    if seen.kernel.syncookies:
        found.append(f"the kernel sent {seen.kernel.syncookies:,} SYN cookies")
    held, ports = seen.kernel.time_wait, seen.local_ports
    if held and ports and held > PORTS_SHARE_MAX * ports:
        found.append(f"connections in TIME_WAIT occupied {held:,} of {ports:,} ports")
    return found


def _stalled(seen: Observation) -> str:
    """Detect a stall of keep-alive: one or two responses on each connection, then silence."""
    share = seen.server.cpu_share  # 0.0 after a hundred responses, which take less than a tick
    is_idle = share is not None and share < IDLE_SHARE_MAX * seen.server_cpus
    is_timed = seen.workload.duration_s is not None and seen.seconds >= 1.0
    if seen.workload.is_persistent and is_timed and is_idle and seen.workload.rate_per_s is None:
        per_connection = (seen.ok + seen.failed) / seen.workload.connections
        at_once = seen.workload.pipeline_depth * seen.workload.streams
        if per_connection <= STALLED_REQUESTS * at_once and seen.workload.file_bytes is None:
            return f"stalled: {per_connection:.1f} responses on each connection, and an idle server"
    return ""


def _silent(seen: Observation) -> str:
    """Detect a server that stopped responding before the end, whose rate is that until then."""
    waited_s, p99_us = seen.waiting_s or 0.0, seen.p99_us
    is_short = waited_s < max(STALL_S_MIN, STALL_SHARE_MIN * seen.seconds)
    if service.is_open_loop(seen.workload) or not p99_us or is_short:
        return ""
    if waited_s * 1e6 < STALL_FACTOR * p99_us:
        return ""
    return (
        f"stalled: most connections had no response in the last {waited_s:.1f} s of"
        f" {seen.seconds:.1f} s, and 99 % of those before took {p99_us / 1000:,.1f} ms at most"
    )


def _impossible(seen: Observation) -> str:
    """Detect that a tool counts responses from before its clock started."""
    worked_s = seen.server.cpu_s or 0.0
    if not seen.has_late_clock or worked_s <= WORK_SHARE_MAX * seen.server_cpus * seen.seconds:
        return ""
    return (
        f"the server worked {worked_s:.1f} s on {_processors(seen.server_cpus)},"
        f" {seen.workload.tool} reports {seen.seconds:.1f} s: the rate is too high"
    )


def _escaped(seen: Observation) -> str:
    """Detect a server that worked on processors that were not its own.

    Its processes count that have ended since, whose processors nobody can see any more.
    """
    used, counters = seen.server.cpu_share or 0.0, 2 * (seen.server.processes or 1)
    inexact = counters * TICK_S / seen.seconds if seen.seconds else 0.0
    if used <= SERVER_SHARE_MAX * seen.server_cpus + inexact:
        return ""
    return f"the server used {used:.2f} of {_processors(seen.server_cpus)}: it ran on others too"


def _starved(seen: Observation) -> str:
    """Detect that a few connections had all responses."""
    return service.starved(
        seen.workload,
        seen.served,
        seen.in_flight,
        seen.ok + seen.failed,
        errors=seen.errors,
        is_tool_busy=service.is_busy(seen.generator, seen.seconds),
    )


def _service(seen: Observation) -> list[str]:
    """Say how evenly connections were served, and whether the latency can be right."""
    served = seen.served and service.with_unopened(seen.workload, seen.served)
    found = [
        service.unevenness(served),
        service.contradiction(seen.workload, seen.in_flight, seen.ok + seen.failed),
    ]
    return [each for each in found if each]


def _processors(number: int) -> str:
    return "1 processor" if number == 1 else f"{number} processors"
