"""What the tests of fleets may use: schedulers, agents and loads as processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bolide.fleet import clock
from bolide.fleet.agent import Agent
from bolide.fleet.limits import Limits
from fleet.in_process import LocalLink
from support.server import Server, Start, clean_environ

Process = TypeVar("Process", bound=Server)

LOAD_S = 100
"""A fleet starts several processes, each of which imports Dask."""


class SchedulerProcess(Server):
    """A scheduler of Dask."""

    program = ("-W", "default", "-m", "distributed.cli.dask_scheduler")


class AgentProcess(Server):
    """An agent, as a user starts it."""

    program = ("-m", "bolide", "agent")


class LoadProcess(Server):
    """A load that is watched while it goes on."""

    program = ("-m", "bolide", "load")

    def ended(self, timeout_s: float = LOAD_S) -> tuple[int, str, str]:
        """Wait for its end; return the exit code and what it wrote on both streams."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        assert self.process.stdout is not None
        return code, self.process.stdout.read(), "".join(self.lines)


@dataclass
class Processes:
    """Starts what a fleet consists of, and ends it all."""

    folder: Path
    started: list[Server]

    def run(
        self, kind: type[Process], arguments: list[str], within: tuple[str, ...] = ()
    ) -> Process:
        """Start a process, by another program if `within` is one."""
        made = type(kind.__name__, (kind,), {"within": within})(arguments, self.folder)
        self.started.append(made)
        return made

    def scheduler(
        self, host: str = "127.0.0.1", within: tuple[str, ...] = ()
    ) -> tuple[SchedulerProcess, str]:
        """Start a scheduler; return it and its address."""
        arguments = ["--host", host, "--port", "0", "--no-dashboard", "--no-show"]
        arguments += ["--dashboard-address", f"{host}:0"]
        process = self.run(SchedulerProcess, arguments, within)
        return process, process.wait_line(r"Scheduler at:\s+(\S+)", LOAD_S)[1]

    def agent(
        self, scheduler: str, name: str, *options: str, code: str = "", within: tuple[str, ...] = ()
    ) -> AgentProcess:
        """Start an agent; `code` runs in its process before its command."""
        kind: type[AgentProcess] = AgentProcess
        if code:
            program = ("-c", f"{code}\nfrom bolide.cli import main; main()", "agent")
            kind = type("AgentProcess", (AgentProcess,), {"program": program})
        process = self.run(kind, [scheduler, "--name", name, *options], within)
        process.wait_line(rf"^agent {name} of ", LOAD_S)
        return process

    def load(self, *arguments: str, within: tuple[str, ...] = ()) -> LoadProcess:
        """Start a load."""
        return self.run(LoadProcess, [*arguments], within)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Return what starts processes."""
    # a shell's background jobs ignore SIGINT, and what they start does too: not so here
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    made = Processes(tmp_path, [])
    yield made
    signal.signal(signal.SIGINT, before)
    for process in reversed(made.started):
        process.close()


@pytest.fixture
def counting(start: Start, applications: Path) -> Server:
    """Return a server that counts its responses."""
    return start("counting.py", cwd=applications / "load")


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `bolide load ARGUMENTS...` to its end."""

    def load(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "bolide", "load", *arguments],
            cwd=tmp_path,
            env=clean_environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LOAD_S,
        )
        return done.returncode, done.stdout, done.stderr

    return load


@pytest.fixture
def links() -> Iterator[Callable[..., LocalLink]]:
    """Return a function that makes a link to agents with these clocks, ahead by nanoseconds."""
    made: list[LocalLink] = []

    def link(
        *clocks: Callable[[], int],
        limits: Mapping[int, Limits] | None = None,
        secret: bytes | None = None,
    ) -> LocalLink:
        agents = {
            f"tcp://{n}": Agent(f"n{n}", (limits or {}).get(n, Limits()), each, secret)
            for n, each in enumerate(clocks or (clock.now_ns,))
        }
        made.append(LocalLink(agents))
        return made[-1]

    yield link
    for each in made:
        each.close()


def counts(server: Server) -> dict[str, int]:
    """Ask the server what it has responded to."""
    with server.connect() as client:
        found: dict[str, int] = client.get("/counts").json()
    return found


def result(done: tuple[int, str, str]) -> dict[str, Any]:
    """Return the report of a run whose exit code is that of its verdict.

    On a busy machine agents may have waited for a processor, which the verdict says.
    """
    assert done[0] in (0, 4), done
    found: dict[str, Any] = json.loads(done[1])
    assert (done[0] == 4) == bool(found["invalid"])
    return found


async def asked(address: str, **message: Any) -> Any:
    """Send an agent a message as Dask does; return the reply, or what prevented one."""
    import distributed

    comm = await distributed.core.connect(address)
    try:
        await comm.write({"reply": True, **message})
        return await asyncio.wait_for(comm.read(deserializers=["msgpack"]), 1)
    except (OSError, TimeoutError, TypeError) as error:  # TypeError: an error of Dask's
        return error
    finally:
        comm.abort()


async def addresses(scheduler: str) -> list[str]:
    """Return the addresses of a scheduler's agents."""
    import distributed

    async with distributed.Client(scheduler, asynchronous=True, set_as_default=False) as client:
        return list((await client.scheduler.identity(n_workers=-1))["workers"])
