"""A fleet on this machine, `--fleet local:N`: a LocalCluster's scheduler, and N agents."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bolide.errors import Error
from bolide.fleet.dask import DaskLink, distributed, prepare_process

START_S = 30.0
END_S = 5.0
POLL_S = 0.05
EVERYTHING = ("0.0.0.0/0", "::/0")
"""What they may load: they are started for one command, which could load it without them."""


@contextlib.contextmanager
def started(count: int) -> Iterator[DaskLink]:
    """Start a scheduler and `count` agents, which end with the block.

    Raises:
        Error: an agent does not start.
    """
    prepare_process()
    with _scheduler() as cluster, contextlib.ExitStack() as stack:
        address = cluster.scheduler_address
        processes = [
            stack.enter_context(_process(address, f"local-{number}")) for number in range(count)
        ]
        with contextlib.closing(DaskLink(address)) as link:
            _await(link, processes)
            yield link


def _scheduler() -> Any:
    """Start a scheduler."""
    try:
        return distributed.LocalCluster(
            n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs=60
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise Error(f"the scheduler on this machine did not start: {error}") from None


@contextlib.contextmanager
def _process(scheduler: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent."""
    allowed = [word for network in EVERYTHING for word in ("--allow", network)]
    limits = ["--connections-max", "1M", "--duration-max", "24h"]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "bolide", "agent", scheduler, "--name", name, "--quiet"]
        + allowed
        + limits,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt of the terminal is the coordinator's
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(link: DaskLink, processes: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + START_S
    while len(link.agents()) < len(processes):
        if any(each.poll() is not None for each in processes):
            raise Error("an agent on this machine ended before it was ready")
        if time.monotonic() > end:
            raise Error(f"the agents on this machine did not start within {START_S:.0f} s")
        time.sleep(POLL_S)
