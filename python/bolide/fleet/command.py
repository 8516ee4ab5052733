"""The command `bolide agent`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import click

from bolide import quantity
from bolide.errors import ConfigError, Error
from bolide.flags import TIME, count
from bolide.fleet.limits import CONNECTIONS_MAX, DURATION_S_MAX, LOOPBACK, Limits, network

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
    "--connections-max",
    type=count(),
    default=CONNECTIONS_MAX,
    help=f"Most connections of a run. [{CONNECTIONS_MAX:,}]",
)
@click.option(
    "--duration-max",
    "duration_s_max",
    type=TIME,
    default=DURATION_S_MAX,
    help="Longest run. [10m]",
)
@click.option("--name", metavar="NAME", default="", help="Name in reports. [HOST-PID]")
@click.option("--host", metavar="ADDRESS", help="Address at which the scheduler reaches it.")
@click.option("--wait", "wait_s", type=TIME, default=WAIT_S, help="Time for the scheduler. [60]")
@click.option("--quiet", is_flag=True, help="Report only what goes wrong.")
def agent(
    scheduler: str,
    allowed: tuple[str, ...],
    connections_max: int,
    duration_s_max: float,
    name: str,
    host: str | None,
    wait_s: float,
    quiet: bool,
) -> None:
    """Generate load when the coordinator at the Dask scheduler SCHEDULER asks for it.

    SCHEDULER is tcp://HOST:PORT, or tls://HOST:PORT with Dask's configuration. Without --allow only
    this machine's loopback addresses may be loaded. It ends when the scheduler ends, with exit code
    3, or on TERM or INT, with 0. docs/fleet.md explains how to start a fleet.
    """
    if not scheduler.startswith(("tcp://", "tls://")):
        raise ConfigError(f"{scheduler!r} is not a scheduler; give tcp://HOST:PORT")
    networks = tuple(network(text) for text in allowed) or LOOPBACK
    limits = Limits(networks, int(connections_max), duration_s_max)
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    asyncio.run(_run(scheduler, name, limits, host, wait_s, quiet))


async def _run(
    scheduler: str, name: str, limits: Limits, host: str | None, wait_s: float, quiet: bool
) -> None:
    """Serve until a signal, or the scheduler's end.

    Raises:
        Error: the scheduler has ended, or does not appear.
    """
    from bolide.fleet import dask
    from bolide.fleet.agent import Agent

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    starting = asyncio.create_task(dask.serve(scheduler, Agent(name, limits), wait_s, host))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return
    worker = starting.result()
    if not quiet:
        may = ", ".join(map(str, limits.allowed))
        click.echo(
            f"agent {name} of {scheduler}: may load {may}, with {limits.connections_max:,} "
            f"connections for {quantity.duration_text(limits.duration_s_max)}",
            err=True,
        )
    finished = asyncio.create_task(worker.finished())
    await asyncio.wait({finished, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        raise Error(f"the scheduler at {scheduler} has ended")
    await worker.close(timeout=2, executor_wait=False)
