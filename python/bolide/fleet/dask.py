"""Dask as what carries the messages: a client of its scheduler, and agents as its workers.

A message is the argument of one operation of ours, as bytes. Nothing of Dask's own serialization is
used, and an agent is a worker that executes no task: it has no handler that would load or run
anything that somebody sent.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import tempfile
from collections.abc import Mapping
from typing import Any

from bolide.errors import ConfigError, Error
from bolide.fleet.agent import Agent
from bolide.fleet.link import REPLY_S


def _imported(name: str) -> Any:
    """Import a module of Dask.

    Raises:
        ConfigError: Dask is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        text = "a fleet needs Dask, which is not installed; pip install 'bolide[fleet]'"
        raise ConfigError(text) from None


dask = _imported("dask")
distributed = _imported("distributed")
pickle = _imported("distributed.protocol.pickle")

OPERATION = "bolide"
RESOURCE = "bolide-agent"
"""By what agents are distinguished from other workers of a cluster."""
CONNECT_S = 5.0
KEPT_HANDLERS = {"identity", "ping", "terminate", "versions"}
KEPT_STREAM_HANDLERS = {"close", "remove-worker", "worker-status-change"}
CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.preload": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.comm.timeouts.connect": f"{CONNECT_S}s",
}


def prepare_process() -> None:
    """Configure Dask for this process, which executes nothing that somebody sent.

    Dask unpickles objects of messages before it looks at what the message is for, so none is ever
    loaded. What goes wrong is reported by us.
    """
    dask.config.set(CONFIG)
    pickle.loads = _load_nothing
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _load_nothing(*arguments: Any, **named: Any) -> None:
    """Take the place of what loads pickled objects; an error would end the connection."""


class Worker(distributed.Worker):  # type: ignore[misc,name-defined]
    """A worker of Dask that does nothing but pass messages to an agent."""

    def __init__(self, scheduler: str, agent: Agent, **options: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bolide-agent-")
        super().__init__(
            scheduler,
            name=agent.name,
            nthreads=1,
            memory_limit=0,
            resources={RESOURCE: 1},
            extensions={},
            local_directory=self._folder.name,
            deserialize=False,
            **options,
        )
        self._agent = agent
        self.handlers: dict[str, Any]
        kept = {key: each for key, each in self.handlers.items() if key in KEPT_HANDLERS}
        self.handlers = kept | {OPERATION: self._respond}
        for name in set(self.stream_handlers) - KEPT_STREAM_HANDLERS:
            self.stream_handlers[name] = _ignore

    def start_http_server(self, *arguments: Any, **named: Any) -> None:
        """Do nothing: an agent has no page."""

    async def plugin_add(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Do nothing: a plugin is code of somebody else."""
        return {"status": "OK"}

    async def close(self, *arguments: Any, **named: Any) -> Any:
        """End the run, too."""
        await self._agent.close()
        try:
            return await super().close(*arguments, **named)
        finally:
            self._folder.cleanup()

    async def _respond(self, message: object = None) -> bytes:
        return await self._agent.respond(message if isinstance(message, bytes) else b"")


def _ignore(**message: Any) -> None:
    """Ignore what only workers that execute tasks need."""


class DaskLink:
    """Agents that are workers of a scheduler."""

    def __init__(self, scheduler: str) -> None:
        """Connect.

        Raises:
            Error: there is no scheduler.
        """
        prepare_process()
        self._scheduler = scheduler
        try:
            self._client = distributed.Client(
                scheduler, timeout=CONNECT_S, set_as_default=False, name="bolide-load"
            )
        except (OSError, RuntimeError, TimeoutError, ValueError) as error:
            raise Error(f"no Dask scheduler at {scheduler}: {_cause(error)}") from None

    def agents(self) -> list[str]:
        """Return the addresses of all agents, in the order of their names."""
        found = self._sync(self._identity)["workers"]
        ours = {key: each for key, each in found.items() if RESOURCE in each["resources"]}
        return sorted(ours, key=lambda address: str(ours[address]["name"]))

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = REPLY_S
    ) -> dict[str, bytes | Exception]:
        """Send each agent its message at the same time."""
        if not messages:
            return {}
        found: dict[str, bytes | Exception] = self._sync(self._call_all, messages, timeout_s)
        return found

    def close(self) -> None:
        """Disconnect; the agents stay."""
        self._client.close(timeout=1)

    def _sync(self, function: Any, *arguments: Any) -> Any:
        try:
            return self._client.sync(function, *arguments)
        except (OSError, RuntimeError, TimeoutError, ValueError) as error:
            raise Error(f"the scheduler at {self._scheduler} is gone: {_cause(error)}") from None

    async def _identity(self) -> Any:
        return await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), REPLY_S)

    async def _call_all(
        self, messages: Mapping[str, bytes], timeout_s: float
    ) -> dict[str, bytes | Exception]:
        calls = (self._call(address, each, timeout_s) for address, each in messages.items())
        return dict(zip(messages, await asyncio.gather(*calls), strict=True))

    async def _call(self, address: str, message: bytes, timeout_s: float) -> bytes | Exception:
        asked = self._client.scheduler.broadcast(
            msg={"op": OPERATION, "message": message}, workers=[address], on_error="ignore"
        )
        try:
            replies = await asyncio.wait_for(asked, timeout_s)
        except TimeoutError:
            return Error(f"it did not respond for {timeout_s:.0f} s")
        reply = replies.get(address)
        if isinstance(reply, bytes):
            return reply
        return Error("it cannot be reached")


def _cause(error: object) -> str:
    """Describe an error of Dask in one line."""
    text = str(error).partition("\n")[0].strip()
    return text or type(error).__name__


def _address_towards(scheduler: str) -> str:
    """Return this machine's address on the way to the scheduler: the only one to listen on."""
    host, _, port = scheduler.partition("://")[2].rpartition(":")
    family, kind, _, _, where = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind) as probe:
        probe.connect(where)  # of UDP: nothing is sent
        found = str(probe.getsockname()[0])
    return f"[{found}]" if ":" in found else found


async def serve(scheduler: str, agent: Agent, wait_s: float, host: str | None) -> Worker:
    """Register an agent with a scheduler, for which it waits.

    Raises:
        Error: the scheduler does not appear.
    """
    prepare_process()
    try:
        host = host or _address_towards(scheduler)
        worker: Worker = await Worker(scheduler, agent, death_timeout=wait_s, host=host)
        return worker
    except TimeoutError:
        raise Error(f"no Dask scheduler at {scheduler} within {wait_s:.0f} s") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise Error(f"cannot join {scheduler}: {_cause(error)}") from None
