"""A fleet on this machine, `--fleet local:N`: a scheduler in this process, and N agents."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from bolide.errors import Error
from bolide.fleet.dask import DaskLink, distributed, ignored, prepare_process
from bolide.fleet.job import MODULE
from bolide.fleet.limits import RUN_S_MAX
from bolide.fleet.seal import SealedLink

START_S = 30.0
JOIN_S = 10.0
"""How long an agent waits for the scheduler, which is there already, if it has not been killed."""
END_S = 5.0
POLL_S = 0.05
SECRET_BYTES = 32
KEPT_HANDLERS = {
    "broadcast",
    "get_metadata",
    "heartbeat_worker",
    "identity",
    "register-client",
    "register-worker",
    "set_metadata",
    "subscribe_worker_status",
}
"""What agents, the coordinator and the cluster ask a scheduler for."""
KEPT_STREAM_HANDLERS = {"close-client", "heartbeat-client", "keep-alive", "worker-status-change"}
EVERYTHING = ("0.0.0.0/0", "::/0")
"""What they may load: they are started for one command, which could load it without them."""


@contextlib.contextmanager
def started(count: int) -> Iterator[SealedLink]:
    """Start a scheduler and `count` agents with a secret of their own, which end with the block.

    Raises:
        Error: an agent does not start.
    """
    prepare_process()
    with _scheduler() as cluster, contextlib.ExitStack() as stack:
        address = cluster.scheduler_address
        secret = secrets.token_hex(SECRET_BYTES).encode()
        file = stack.enter_context(_in_memory(secret))
        processes = [
            stack.enter_context(_process(address, f"local-{number}", file))
            for number in range(count)
        ]
        with contextlib.closing(SealedLink(DaskLink(address), secret)) as link:
            _await(link, processes)
            yield link


class Scheduler(distributed.Scheduler):  # type: ignore[misc]
    """A scheduler that does nothing but pass messages: it runs and loads nothing for its clients.

    Everybody on this machine reaches its port.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.handlers: dict[str, Any]
        self.handlers = {key: each for key, each in self.handlers.items() if key in KEPT_HANDLERS}
        for name in set(self.stream_handlers) - KEPT_STREAM_HANDLERS:
            self.stream_handlers[name] = ignored


def _scheduler() -> Any:
    """Start a scheduler."""
    options = {"host": "127.0.0.1", "port": 0, "dashboard": False}
    options |= {"dashboard_address": "127.0.0.1:0"}
    try:
        return distributed.SpecCluster(
            scheduler={"cls": Scheduler, "options": options}, workers={}, silence_logs=60
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise Error(f"the scheduler on this machine did not start: {error}") from None


@contextlib.contextmanager
def _in_memory(octets: bytes) -> Iterator[int]:
    """Return the descriptor of a file in no folder: nothing is left of it, however this ends."""
    descriptor = os.memfd_create("secret")
    try:
        os.write(descriptor, octets)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _process(scheduler: str, name: str, secret_file: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent."""
    allowed = [word for network in EVERYTHING for word in ("--allow", network)]
    limits = ["--connections-max", "1M", "--threads-max", "10k"]
    limits += ["--duration-max", f"{RUN_S_MAX:.0f}s"]
    options = ["--name", name, "--secret-file", f"/dev/fd/{secret_file}", "--quiet"]
    options += ["--wait", f"{JOIN_S:.0f}"]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*MODULE, "bolide", "agent", scheduler, *options, *allowed, *limits],
        pass_fds=(secret_file,),
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


def _await(link: SealedLink, processes: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + START_S
    while len(link.agents()) < len(processes):
        if any(each.poll() is not None for each in processes):
            raise Error("an agent on this machine ended before it was ready")
        if time.monotonic() > end:
            raise Error(f"the agents on this machine did not start within {START_S:.0f} s")
        time.sleep(POLL_S)
