"""What can be done to an agent through Dask, besides loading what it allows: nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import json
import pickle
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bolide.errors import Error
from bolide.fleet import wire
from bolide.fleet.agent import Agent
from bolide.fleet.dask import DaskLink, _cause, serve
from bolide.fleet.limits import Limits
from fleet.conftest import LOAD_S, AgentProcess, Processes, addresses, asked
from support.server import Server, children, command

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    # of Dask's own connections
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Touch:
    """An object that creates a file where it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self._path), "w"))


@pytest.fixture
def agent(processes: Processes) -> tuple[AgentProcess, str, str]:
    """Return an agent, its scheduler's address, and its own."""
    _, scheduler = processes.scheduler()
    process = processes.agent(scheduler, "a")
    [address] = asyncio.run(addresses(scheduler))
    return process, scheduler, address


def test_an_agent_whose_reply_dask_cannot_read_is_an_error_of_its_own() -> None:
    async def fail(message: bytes) -> bytes:
        raise AssertionError

    async def respond(message: bytes) -> bytes:
        return b"reply"

    operations = {
        "tcp://a": SimpleNamespace(bolide=fail),
        "tcp://b": SimpleNamespace(bolide=respond),
    }
    link: Any = DaskLink.__new__(DaskLink)
    link._near = dict.fromkeys(operations, True)
    link._client = SimpleNamespace(rpc=operations.__getitem__)
    found = asyncio.run(link._call_all(dict.fromkeys(operations, b"question"), 5.0))
    assert str(found["tcp://a"]) == "its reply cannot be read: AssertionError"
    assert isinstance(found["tcp://a"], Error) and found["tcp://b"] == b"reply"
    assert link._near == {"tcp://a": False, "tcp://b": True}


def attacks(file: Path) -> list[dict[str, Any]]:
    """Return messages that create a file where what they have is loaded."""
    code = pickle.dumps(Touch(file))
    return [
        {"op": "register_scheduler_plugin", "plugin": code, "name": "p", "idempotent": False},
        {"op": "feed", "function": code, "interval": "1s"},
        {"op": "feed", "setup": code, "interval": "1s"},
        {"op": "run_function", "function": code, "args": code, "kwargs": code, "wait": True},
        {"op": "register_worker_plugin", "plugin": code, "name": "p", "idempotent": False},
        {"op": "terminate"},
    ]


def is_well(address: str) -> bool:
    """Return whether an agent responds to our messages."""
    octets = asyncio.run(asked(address, op="bolide", message=wire.encode(wire.Hello())))
    return isinstance(octets, bytes) and isinstance(wire.reply(octets), wire.Description)


def test_no_object_that_is_sent_is_loaded(
    agent: tuple[AgentProcess, str, str], tmp_path: Path
) -> None:
    _, _, address = agent
    protocol = distributed.protocol
    for wrapped in (protocol.ToPickle, protocol.Serialize, protocol.to_serialize):
        file = tmp_path / wrapped.__name__
        for operation in ("bolide", "run", "ping", "anything"):
            asyncio.run(asked(address, op=operation, message=wrapped(Touch(file))))
        assert not file.exists(), wrapped
    assert is_well(address)


def test_no_function_that_is_sent_is_called(
    agent: tuple[AgentProcess, str, str], tmp_path: Path
) -> None:
    process, scheduler, address = agent
    file = tmp_path / "file"

    async def attempts() -> None:
        async with distributed.Client(scheduler, asynchronous=True, set_as_default=False) as client:
            task = client.submit(open, str(file), "w", workers=[address], pure=False)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(task.result(), 2)
            for attempt in (client.run(open, str(file), "w"), client.upload_file(__file__)):
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(attempt, 2)

    asyncio.run(attempts())
    assert not file.exists()
    assert process.process.poll() is None and is_well(address)


def test_nobody_ends_an_agent_at_its_port(agent: tuple[AgentProcess, str, str]) -> None:
    _, _, address = agent
    for operation in ("terminate", "close_gracefully", "connection_stream"):
        asyncio.run(asked(address, op=operation))
        assert is_well(address), operation


def test_an_agent_listens_on_one_port_only(agent: tuple[AgentProcess, str, str]) -> None:
    psutil = pytest.importorskip("psutil")
    process, _, address = agent
    listening = [
        each.laddr
        for each in psutil.Process(process.pid).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert [f"tcp://{each.ip}:{each.port}" for each in listening] == [address]


def listening(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    import psutil

    connections = psutil.Process(pid).net_connections("inet")
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def test_nobody_runs_code_in_the_coordinator_through_its_own_scheduler(
    counting: Server, processes: Processes, tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    url = f"{counting.urls[0]}/page/a"
    run = processes.load(url, "--fleet", "local:1", "-c", "2", "-d", "5s", "--json")
    run.wait_line("requests/s, p50", LOAD_S)
    [agent] = children(run.pid)
    [scheduler] = {
        each.raddr.port
        for each in psutil.Process(agent).net_connections("inet")
        if each.status == psutil.CONN_ESTABLISHED and each.raddr.port in listening(run.pid)
    }
    file = tmp_path / "file"
    for attack in attacks(file):
        reply = asyncio.run(asked(f"tcp://127.0.0.1:{scheduler}", **attack))
        assert reply is None, attack["op"]  # there is no such operation
        assert not file.exists(), attack["op"]
    code, page, written = run.ended()
    assert code in (0, 4), written
    assert json.loads(page)["ok"] > 0
    assert not file.exists()


def test_a_warning_of_another_client_is_not_loaded(
    counting: Server, processes: Processes, tmp_path: Path
) -> None:
    _, scheduler = processes.scheduler()
    processes.agent(scheduler, "a")
    url = f"{counting.urls[0]}/page/a"
    run = processes.load(url, "--fleet", scheduler, "-c", "2", "-d", "3s", "--json")
    run.wait_line("requests/s, p50", LOAD_S)
    file = tmp_path / "file"
    code = pickle.dumps(Touch(file))

    warning = {"message": code, "category": code}
    asyncio.run(asked(scheduler, op="log_event", topic="warn", msg=warning))
    done = run.ended()
    assert done[0] in (0, 4), done
    assert json.loads(done[1])["ok"] > 0 and not file.exists()


def test_an_agent_whose_name_is_taken(agent: tuple[AgentProcess, str, str], tmp_path: Path) -> None:
    _, scheduler, _ = agent
    code, _, written = command("agent", scheduler, "--name", "a", cwd=tmp_path)
    expected = f"bolide: error: the name 'a' is taken at {scheduler}; give another --name\n"
    assert (code, written) == (2, expected)


def test_an_address_of_another_machine(
    agent: tuple[AgentProcess, str, str], tmp_path: Path
) -> None:
    _, scheduler, _ = agent
    secret = tmp_path / "secret"
    secret.write_text("a secret of this test")
    options = ("--host", "192.0.2.9", "--secret-file", str(secret))
    code, _, written = command("agent", scheduler, *options, cwd=tmp_path)
    expected = "bolide: error: --host: 192.0.2.9 is not an address of this machine\n"
    assert code == 2 and written.startswith(expected)  # Dask warns of a socket of its own


class Routes:
    """A client of Dask that notes the way of each message; `is_near`: it reaches agents itself."""

    def __init__(self, is_near: bool) -> None:
        self.is_near = is_near
        self.is_broken = False
        self.fault: BaseException | None = None
        """What happens to the next messages to the scheduler."""
        self.ways: list[str] = []
        self.rpc = self
        self.scheduler: Routes | None = self
        self.sync: Callable[..., Any] | None = None

    def __call__(self, address: str) -> Routes:
        return self

    async def connect(self, address: str, timeout: float) -> str:
        self.ways.append("connect")
        if not self.is_near:
            raise OSError("no route")
        return address

    def reuse(self, address: str, comm: str) -> None:
        assert comm == address

    async def bolide(self, message: bytes) -> bytes:
        self.ways.append("agent")
        if self.is_broken:
            raise OSError("closed")
        return message

    async def broadcast(self, msg: dict[str, Any], workers: list[str], on_error: str) -> Any:
        self.ways.append("scheduler")
        if self.fault is not None:
            raise self.fault
        return {workers[0]: msg["message"]}


def link_of(client: Any) -> DaskLink:
    """Return a link with this client of a scheduler."""
    made = DaskLink.__new__(DaskLink)
    made._client, made._near, made._scheduler = client, {}, "tcp://s"
    return made


def test_messages_take_a_connection_that_persists_where_there_is_one() -> None:
    async def send(made: DaskLink) -> bytes | Exception:
        return await made._call("tcp://a", b"m", 5.0)

    async def ways() -> None:
        near, far = Routes(True), Routes(False)
        for routes in (near, far):
            made = link_of(routes)
            assert [await send(made), await send(made)] == [b"m", b"m"]
        assert near.ways == ["connect", "agent", "agent"]
        assert far.ways == ["connect", "scheduler", "scheduler"]
        # A message that may have arrived is not sent again by itself.
        made, near.is_broken, near.ways = link_of(near), True, []
        assert str(await send(made)) == "it cannot be reached"
        assert await send(made) == b"m"
        assert near.ways == ["connect", "agent", "scheduler"]

    asyncio.run(ways())


@pytest.fixture
def far() -> Iterator[Routes]:
    """Return a client that reaches agents through its scheduler, and calls coroutines as Dask."""
    runner = distributed.utils.LoopRunner()
    runner.start()
    made = Routes(False)
    made.sync = functools.partial(distributed.utils.sync, runner.loop)
    yield made
    runner.stop()


def test_a_connection_to_the_scheduler_that_ends_does_not_end_the_load(far: Routes) -> None:
    link = link_of(far)
    far.fault = distributed.comm.CommClosedError("reset")
    [found] = link.call({"tcp://a": b"m"}).values()
    assert isinstance(found, Error)
    assert str(found) == "it cannot be reached through the scheduler: reset"
    far.fault = None
    assert link.call({"tcp://a": b"m"}) == {"tcp://a": b"m"}


@pytest.mark.parametrize(
    "fault", [asyncio.CancelledError(), concurrent.futures.CancelledError(), None]
)
def test_a_scheduler_that_is_gone_is_described_in_words(
    far: Routes, fault: BaseException | None
) -> None:
    far.fault = fault
    if fault is None:  # as when Dask's client has given up
        far.scheduler = None
    link = link_of(far)
    expected = "the scheduler at tcp://s is gone: its connection has ended"
    with pytest.raises(Error) as raised:
        link.call({"tcp://a": b"m"})
    assert str(raised.value) == expected
    if fault is None:
        with pytest.raises(Error) as raised:
            link.agents()
        assert str(raised.value) == expected


def test_a_time_that_has_passed_is_described_in_words() -> None:
    passed, error = TimeoutError(), OSError("timed out")
    passed.__cause__ = asyncio.CancelledError()
    error.__cause__ = passed
    assert _cause(error) == "it did not respond in time"


def test_a_connection_that_does_not_close_in_time_is_no_error() -> None:
    def close(timeout: float) -> None:
        raise TimeoutError

    link_of(SimpleNamespace(close=close)).close()


class Joined:
    """A worker that has joined a scheduler, which says where it listens, or stalls.

    A message arrives at its agent meanwhile.
    """

    def __init__(self, agent: Agent, listens_at: str | None) -> None:
        self._agent = agent
        self._listens_at = listens_at
        self.scheduler = self
        self.reply: asyncio.Task[bytes]
        self.is_closed = False

    def __await__(self) -> Generator[Any, None, Joined]:
        yield from asyncio.sleep(0).__await__()
        return self

    async def identity(self, n_workers: int) -> dict[str, str]:
        self.reply = asyncio.create_task(self._agent.respond(wire.encode(wire.Hello())))
        for _ in range(10):  # far more steps than a reply takes
            await asyncio.sleep(0)
        assert not self.reply.done()
        if self._listens_at is None:
            await asyncio.Event().wait()
        return {"address": str(self._listens_at)}

    async def close(self, **options: Any) -> None:
        self.is_closed = True


def test_an_agent_without_a_secret_serves_nobody_before_its_scheduler_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bolide.fleet.dask.prepare_process", lambda: None)
    agents = [Agent("a", Limits()), Agent("a", Limits())]
    safe, stalled = Joined(agents[0], "tcp://127.0.0.1:1"), Joined(agents[1], None)

    async def join(joined: Joined, agent: Agent) -> None:
        monkeypatch.setattr("bolide.fleet.dask.Worker", lambda *_, **options: joined)
        await serve("tcp://127.0.0.1:1", agent, 5.0, "127.0.0.1")

    async def join_both() -> None:
        await join(safe, agents[0])
        assert isinstance(wire.reply(await safe.reply), wire.Description)
        monkeypatch.setattr("bolide.fleet.dask.GREET_S", 0.05)
        with pytest.raises(Error) as raised:
            await join(stalled, agents[1])
        expected = "no Dask scheduler at tcp://127.0.0.1:1: it did not respond in time"
        assert str(raised.value) == expected
        assert not stalled.reply.done()

    asyncio.run(join_both())
    assert (safe.is_closed, stalled.is_closed) == (False, True)
