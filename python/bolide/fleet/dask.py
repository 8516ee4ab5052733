"""Dask as what carries the messages: a client of its scheduler, and agents as its workers.

A message is the argument of one operation of ours, as bytes. Nothing of Dask's own serialization is
used, and an agent is a worker that executes no task: it has no handler that would load or run
anything that somebody sent. Who may send messages is not known here, but in `seal.py`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import logging
import socket
import warnings
from collections.abc import Mapping
from typing import Any

from bolide import temporary
from bolide.errors import ConfigError, Error
from bolide.fleet.agent import Agent
from bolide.fleet.exposure import refuse_exposed, refuse_exposed_scheduler
from bolide.fleet.link import REPLY_S
from bolide.fleet.wire import printable


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
reading = _imported("bolide.fleet.reading")

OPERATION = "bolide"
RESOURCE = "bolide-agent"
"""By what agents are distinguished from other workers of a cluster."""
FOLDER_PREFIX = "bolide-agent-"
"""Prefix of the name of an agent's folder, in which Dask has its files."""
CONNECT_S = 5.0
GREET_S = CONNECT_S + 1.0
"""How long another process may take for the first messages of a connection; Dask bounds only the
connection itself."""
NEAR_S = 1.0
"""How long the coordinator tries to connect to an agent itself."""
KEPT_HANDLERS = {"identity", "ping"}
KEPT_STREAM_HANDLERS = {"close", "remove-worker", "worker-status-change"}
CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.preload": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.comm.timeouts.connect": f"{CONNECT_S}s",
    "distributed.comm.compression": False,
}


def prepare_process() -> None:
    """Configure Dask for this process, which executes nothing that somebody sent.

    Dask unpickles objects of messages before it looks at what the message is for, so none is ever
    loaded; some of its modules have a name of their own for what does that. A client unpickles what
    any other client sends it as a warning. What goes wrong is reported by us.
    """
    dask.config.set(CONFIG)
    # Of Python and Dask: what concerns agents is the version of Bolide, which they compare.
    warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
    reading.bound()
    distributed.client.connect = distributed.core.connect = _connected
    for module in (pickle, distributed.client, distributed.scheduler):
        module.loads = _load_nothing
    distributed.Client._default_event_handlers = {}
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


async def _connected(*arguments: Any, **named: Any) -> Any:
    """Connect, and exchange first messages, within a time.

    Raises:
        OSError: it took longer, or failed.
    """
    async with asyncio.timeout(GREET_S):
        return await distributed.comm.connect(*arguments, **named)


def _load_nothing(*arguments: Any, **named: Any) -> None:
    """Take the place of what loads pickled objects; an error would end the connection."""


UNCONNECTED = (
    asyncio.CancelledError,  # Dask ends its own coroutines when it has lost the scheduler
    concurrent.futures.CancelledError,
    UnboundLocalError,  # what its `sync` makes of that
    AttributeError,  # later, its client has no scheduler
)
"""What is raised in Dask because its connection has ended."""
POOL_CLOSED = "ConnectionPool is closed"
"""The text of a RuntimeError with the same cause."""


class Worker(distributed.Worker):  # type: ignore[misc,name-defined]
    """A worker of Dask that does nothing but pass messages to an agent."""

    def __init__(self, scheduler: str, agent: Agent, **options: Any) -> None:
        self._folder = contextlib.ExitStack()
        folder = self._folder.enter_context(temporary.new(FOLDER_PREFIX))
        super().__init__(
            scheduler,
            name=agent.name,
            nthreads=1,
            memory_limit=0,
            resources={RESOURCE: 1},
            extensions={},
            local_directory=str(folder),
            deserialize=False,
            **options,
        )
        self._agent = agent
        self.handlers: dict[str, Any]
        kept = {key: each for key, each in self.handlers.items() if key in KEPT_HANDLERS}
        self.handlers = kept | {OPERATION: self._respond}
        for name in set(self.stream_handlers) - KEPT_STREAM_HANDLERS:
            self.stream_handlers[name] = ignored

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
            self._folder.close()

    async def _respond(self, message: object = None) -> bytes:
        return await self._agent.respond(message if isinstance(message, bytes) else b"")


def ignored(**message: Any) -> None:
    """Ignore what only those need that execute tasks."""


class DaskLink:
    """Agents that are workers of a scheduler."""

    def __init__(self, scheduler: str) -> None:
        """Connect.

        Raises:
            ConfigError: Dask is not configured for TLS.
            Error: there is no scheduler.
        """
        prepare_process()
        _demand_certificates(scheduler, "client")
        self._scheduler = scheduler
        self._near: dict[str, bool] = {}
        asyncio.run(_greet(scheduler, "client"))
        try:
            self._client = distributed.Client(
                scheduler, timeout=CONNECT_S, set_as_default=False, name="bolide-load"
            )
        except (Exception, asyncio.CancelledError) as error:  # whatever it made of the messages
            raise Error(f"no Dask scheduler at {scheduler}: {_cause(error)}") from None

    def agents(self) -> dict[str, str]:
        """Return the addresses of all agents with their names, in the order of the names."""
        found = self._sync(self._identity)["workers"].items()
        names = {key: str(each["name"]) for key, each in found if RESOURCE in each["resources"]}
        return {key: printable(names[key]) for key in sorted(names, key=lambda key: names[key])}

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
        # Nothing that goes wrong here changes a result, which may have been printed.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            self._client.close(timeout=1)

    def _sync(self, function: Any, *arguments: Any) -> Any:
        try:
            return self._client.sync(function, *arguments)
        except (Exception, asyncio.CancelledError) as error:
            raise Error(f"the scheduler at {self._scheduler} is gone: {_cause(error)}") from None

    async def _identity(self) -> Any:
        return await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), REPLY_S)

    async def _call_all(
        self, messages: Mapping[str, bytes], timeout_s: float
    ) -> dict[str, bytes | Exception]:
        calls = (self._call(address, each, timeout_s) for address, each in messages.items())
        return dict(zip(messages, await asyncio.gather(*calls), strict=True))

    async def _call(self, address: str, message: bytes, timeout_s: float) -> bytes | Exception:
        try:
            reply = await asyncio.wait_for(self._sent(address, message), timeout_s)
        except TimeoutError:
            return Error(f"it did not respond for {timeout_s:.0f} s")
        except OSError as error:  # of this connection to the scheduler, which may be there
            return Error(f"it cannot be reached through the scheduler: {_cause(error)}")
        except Error as error:
            return error
        return reply if isinstance(reply, bytes) else Error("it cannot be reached")

    async def _sent(self, address: str, message: bytes) -> Any:
        """Send a message on a connection that persists, or else through the scheduler.

        The scheduler opens a connection for each message. That takes several round trips, of which
        the agent reads its clock in the last one, so offsets are known better without it.

        Raises:
            Error: what came back is no reply.
            OSError: the connection to the scheduler ended.
        """
        if await self._is_near(address):
            try:
                return await getattr(self._client.rpc(address), OPERATION)(message=message)
            except OSError:  # it may have the message, so this one is not sent again
                self._near[address] = False
                return None
            except Exception as error:  # Dask raises anything for what is not its protocol
                self._near[address] = False
                name = type(error).__name__
                raise Error(f"its reply cannot be read: {name}") from None
        replies = await self._client.scheduler.broadcast(
            msg={"op": OPERATION, "message": message}, workers=[address], on_error="ignore"
        )
        return replies.get(address)

    async def _is_near(self, address: str) -> bool:
        """Return whether an agent can be reached without the scheduler."""
        if address not in self._near:
            self._near[address] = False
            try:
                comm = await self._client.rpc.connect(address, timeout=NEAR_S)
            except Exception:  # also that of a handshake that is none
                return False
            self._client.rpc.reuse(address, comm)
            self._near[address] = True
        return self._near[address]


async def _greet(scheduler: str, role: str) -> None:
    """Ask a scheduler what it is.

    Raises:
        Error: it is none, or does not respond.
    """
    why = "something else listens there"
    try:
        async with asyncio.timeout(GREET_S):
            found = await _identity_at(scheduler, role)
    except TimeoutError:
        why = f"what listens there did not respond within {GREET_S:.0f} s"
    except distributed.comm.core.FatalCommClosedError as error:  # of certificates
        why = _cause(error)
    except distributed.comm.CommClosedError as error:
        why = f"{why} ({_cause(error)})"
    except OSError as error:
        why = _cause(error)
    except Exception as error:  # whatever Dask makes of the messages of another protocol
        why = f"{why} ({type(error).__name__})"
    else:
        if isinstance(found, dict) and isinstance(found.get("workers"), dict):
            return
    raise Error(f"no Dask scheduler at {scheduler}: {why}")


async def _identity_at(address: str, role: str) -> Any:
    """Ask a process of Dask for its identity, on a connection of its own."""
    arguments = distributed.Security().get_connection_args(role)
    comm = await distributed.core.connect(address, timeout=CONNECT_S, **arguments)
    try:
        await comm.write({"op": "identity", "n_workers": 0, "reply": True})
        return await comm.read()
    finally:
        comm.abort()


def _cause(error: BaseException) -> str:
    """Describe an error of Dask in one line: the first one, which caused the others."""
    while error.__cause__ is not None and not isinstance(error, TimeoutError):
        error = error.__cause__
    text = str(error).partition("\n")[0].strip()
    if isinstance(error, UNCONNECTED) or text == POOL_CLOSED:
        return "its connection has ended"
    if not text and isinstance(error, TimeoutError):
        return "it did not respond in time"
    return text or type(error).__name__


def _demand_certificates(scheduler: str, role: str) -> None:
    """Check that Dask is configured for TLS, if it is asked for.

    Raises:
        ConfigError: it is not.
    """
    if not scheduler.startswith("tls://"):
        return
    try:
        context = distributed.Security().get_connection_args(role)["ssl_context"]
        why = "needs certificates in Dask's configuration"
    except (OSError, ValueError) as error:
        context, why = None, f"cannot use the certificates of Dask's configuration: {_cause(error)}"
    if context is None:
        where = "(distributed.comm.tls; https://distributed.dask.org/en/stable/tls.html)"
        raise ConfigError(f"{scheduler} {why} {where}")


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
        ConfigError: others could use it without a secret, its name is taken, it cannot listen, or
            Dask is not configured for TLS.
        Error: the scheduler does not appear, or does not respond.
    """
    temporary.remove_left(FOLDER_PREFIX)
    prepare_process()
    _demand_certificates(scheduler, "worker")
    is_open = not agent.has_secret and not scheduler.startswith("tls://")
    if is_open:  # others could send messages as soon as the scheduler knows it
        agent.hold()
    try:
        host = host or _address_towards(scheduler)
        if is_open:
            refuse_exposed(host.strip("[]"))
        worker: Worker = await Worker(scheduler, agent, death_timeout=wait_s, host=host)
    except TimeoutError:
        raise Error(f"no Dask scheduler at {scheduler} within {wait_s:.0f} s") from None
    except ConfigError:
        raise
    except Exception as error:  # whatever Dask makes of the messages of another protocol
        raise await _not_joined(scheduler, agent, host, error) from None
    if is_open:
        try:
            await _check_exposure(scheduler, worker)
        except Error:
            await worker.close(timeout=2, executor_wait=False)
            raise
        agent.admit()
    return worker


async def _check_exposure(scheduler: str, worker: Worker) -> None:
    """Check that others do not reach the scheduler.

    Raises:
        ConfigError: they do.
        Error: it does not respond, or with something else.
    """
    try:
        async with asyncio.timeout(GREET_S):
            address = str((await worker.scheduler.identity(n_workers=0))["address"])
    except Exception as error:  # whatever Dask makes of a connection that has ended
        raise Error(f"no Dask scheduler at {scheduler}: {_cause(error)}") from None
    refuse_exposed_scheduler(scheduler, address)


async def _not_joined(scheduler: str, agent: Agent, host: str | None, error: Exception) -> Error:
    """Explain why a worker did not start."""
    cause = printable(_cause(error))
    if "name taken" in cause:
        return ConfigError(f"the name {agent.name!r} is taken at {scheduler}; give another --name")
    if "assign requested address" in cause:
        return ConfigError(f"--host: {host} is not an address of this machine")
    try:
        await _greet(scheduler, "worker")
    except Error as none:
        return none
    return Error(f"cannot join {scheduler}: {cause}")
