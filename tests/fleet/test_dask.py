"""What can be done to an agent through Dask, besides loading what it allows: nothing."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from bolide.fleet import wire
from fleet.conftest import AgentProcess, Processes

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


async def asked(address: str, **message: Any) -> Any:
    """Send an agent a message as Dask does; return the reply, or what prevented one."""
    comm = await distributed.core.connect(address)
    try:
        await comm.write({"reply": True, **message})
        return await asyncio.wait_for(comm.read(deserializers=["msgpack"]), 1)
    except (OSError, TimeoutError, TypeError) as error:  # TypeError: an error of Dask's
        return error
    finally:
        comm.abort()


async def addresses(scheduler: str) -> list[str]:
    async with distributed.Client(scheduler, asynchronous=True, set_as_default=False) as client:
        return list((await client.scheduler.identity(n_workers=-1))["workers"])


@pytest.fixture
def agent(processes: Processes) -> tuple[AgentProcess, str, str]:
    """Return an agent, its scheduler's address, and its own."""
    _, scheduler = processes.scheduler()
    process = processes.agent(scheduler, "a")
    [address] = asyncio.run(addresses(scheduler))
    return process, scheduler, address


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


def test_an_agent_listens_on_one_port_only(agent: tuple[AgentProcess, str, str]) -> None:
    psutil = pytest.importorskip("psutil")
    process, _, address = agent
    listening = [
        each.laddr
        for each in psutil.Process(process.pid).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert [f"tcp://{each.ip}:{each.port}" for each in listening] == [address]
