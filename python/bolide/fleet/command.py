"""The command `bolide agent`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import click

from bolide import quantity, streams
from bolide.errors import ConfigError, Error
from bolide.flags import PORT, TIME, count
from bolide.fleet.agent import Agent
from bolide.fleet.exposure import is_scheduler
from bolide.fleet.limits import (
    CONNECTIONS_MAX,
    DURATION_S_MAX,
    LOOPBACK,
    RUN_HOURS_MAX,
    RUN_S_MAX,
    Limits,
    default_threads_max,
    network,
)
from bolide.fleet.seal import secret_in
from bolide.fleet.wire import printable

WAIT_S = 60.0


@click.command(short_help="Generate load for `bolide load --fleet`, within limits.")
@click.argument("scheduler")
@click.option(
    "--allow",
    "allowed",
    metavar="NETWORK",
    multiple=True,
    help="Network that may be loaded: 10.0.0.0/8; may be repeated. [loopback only]",
)
@click.option(
    "--port",
    "ports",
    type=PORT,
    multiple=True,
    help="Port that may be loaded; may be repeated. [all]",
)
@click.option(
    "--connections-max",
    type=count(),
    default=CONNECTIONS_MAX,
    help=f"Most connections of a run. [{CONNECTIONS_MAX:,}]",
)
@click.option("--threads-max", type=count(), help="Most threads of a run. [4 for each processor]")
@click.option("--rate-max", type=count(), help="Highest mean rate of a run, per second. [no limit]")
@click.option(
    "--duration-max",
    "duration_s_max",
    type=TIME,
    default=DURATION_S_MAX,
    help="Longest run. [10m]",
)
@click.option(
    "--secret-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with the secret that `bolide load` needs too, beyond this machine.",
)
@click.option("--name", metavar="NAME", default="", help="Name in reports. [HOST-PID]")
@click.option("--host", metavar="ADDRESS", help="Address at which the scheduler reaches it.")
@click.option("--wait", "wait_s", type=TIME, default=WAIT_S, help="Time for the scheduler. [60]")
@click.option("--quiet", is_flag=True, help="Report only what goes wrong.")
def agent(
    scheduler: str,
    allowed: tuple[str, ...],
    ports: tuple[float, ...],
    connections_max: float,
    threads_max: float | None,
    rate_max: float | None,
    duration_s_max: float,
    secret_file: Path | None,
    name: str,
    host: str | None,
    wait_s: float,
    quiet: bool,
) -> None:
    """Generate load when the coordinator at the Dask scheduler SCHEDULER asks for it.

    SCHEDULER is tcp://HOST:PORT, or tls://HOST:PORT with Dask's configuration. Without --allow only
    this machine's loopback addresses may be loaded. Beyond this machine, tcp:// needs a secret. It
    ends when the scheduler ends, with exit code 3, or on TERM or INT, with 0. docs/fleet.md
    explains how to start a fleet.
    """
    if not is_scheduler(scheduler):
        raise ConfigError(f"{scheduler!r} is not a scheduler; give tcp://HOST:PORT")
    if duration_s_max > RUN_S_MAX:
        raise ConfigError(
            f"--duration-max: no load of a fleet takes more than {RUN_HOURS_MAX} hours; give "
            f"{RUN_HOURS_MAX}h"
        )
    networks = tuple(network(text) for text in allowed) or LOOPBACK
    limits = Limits(
        networks,
        int(connections_max),
        duration_s_max,
        int(threads_max or default_threads_max()),
        frozenset(map(int, ports)),
        rate_max,
    )
    secret = secret_in(secret_file) if secret_file else None
    made = Agent(name or f"{socket.gethostname()}-{os.getpid()}", limits, secret=secret)
    asyncio.run(_run(scheduler, made, host, wait_s, quiet))


async def _run(scheduler: str, agent: Agent, host: str | None, wait_s: float, quiet: bool) -> None:
    """Serve until a signal, or the scheduler's end.

    Raises:
        Error: the scheduler has ended, or does not appear.
    """
    from bolide.fleet import dask

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    starting = asyncio.create_task(dask.serve(scheduler, agent, wait_s, host))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return
    worker = starting.result()
    if not quiet:
        name = printable(agent.name)
        streams.say(f"agent {name} of {scheduler}: {_limits_text(agent.limits)}")
    finished = asyncio.create_task(worker.finished())
    await asyncio.wait({finished, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        raise Error(f"the scheduler at {scheduler} has ended")
    await worker.close(timeout=2, executor_wait=False)


def _limits_text(limits: Limits) -> str:
    """Describe what an agent may load."""
    where = ", ".join(map(str, limits.allowed))
    if limits.ports:
        where += f" (ports {', '.join(map(str, sorted(limits.ports)))})"
    rate = "" if limits.rate_per_s_max is None else f" at {limits.rate_per_s_max:,.0f} requests/s"
    duration = quantity.duration_text(limits.duration_s_max)
    return f"may load {where}, with {limits.connections_max:,} connections{rate} for {duration}"
