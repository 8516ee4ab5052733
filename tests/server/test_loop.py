"""Which event loop a name stands for, and what its selector watches."""

import asyncio
import gc
import os
import selectors
import socket
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from bolide import App, Request, WebSocket
from bolide._core import Server, selector
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.interface import application
from bolide.server import loop
from support.websocket import handshake

pytestmark = pytest.mark.slow


def test_auto_is_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop.choose("auto") == "uvloop"
    monkeypatch.setattr(loop, "find_spec", lambda name: None)
    assert loop.choose("auto") == "asyncio"


def test_uvloop_that_is_not_installed_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigError, match="uvloop is not installed; pip install"):
        loop.choose("uvloop")


@pytest.fixture
def server() -> Server:
    """Make a server of an empty application, which listens nowhere."""
    settings = resolve({})
    held = application(App(), "test:app", settings)
    return Server(held.core(), settings.server_options(None))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect two sockets."""
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        yield here, there


def test_readers_and_writers_are_file_objects(
    server: Server, pair: tuple[socket.socket, socket.socket]
) -> None:
    """The loop finds the key of a file object, so that it can change and remove it."""
    here, there = pair
    seen: list[str] = []

    async def main() -> None:
        running = asyncio.get_running_loop()
        read, written = asyncio.Event(), asyncio.Event()
        running.add_reader(here, seen.append, "never")
        running.add_reader(here, read.set)
        running.add_writer(here, written.set)
        there.send(b"x")
        async with asyncio.timeout(10):
            await read.wait()
            await written.wait()
        assert running.remove_writer(here)
        assert not running.remove_writer(here)
        assert running.remove_reader(here)
        assert not running.remove_reader(here)
        assert not running.remove_reader(here.fileno())

    with asyncio.Runner(loop_factory=lambda: loop.new("asyncio", server)) as runner:
        runner.run(main())
    assert seen == []


@pytest.mark.parametrize("is_attached", [False, True], ids=["unknown", "attached"])
def test_threads_wake_the_loop(server: Server, is_attached: bool) -> None:
    """Whether it waits or is about to, no callback is left until something else happens."""
    threads, rounds = 4, 300
    seen: list[int] = []

    async def main() -> None:
        running = asyncio.get_running_loop()
        if is_attached:
            server.attach(running, own_selector=True)

        def call(number: int) -> None:
            for _ in range(rounds):
                done = threading.Event()
                running.call_soon_threadsafe(settle, number, done)
                assert done.wait(10)

        def settle(number: int, done: threading.Event) -> None:
            seen.append(number)
            done.set()

        async with asyncio.timeout(20):
            await asyncio.gather(*(asyncio.to_thread(call, number) for number in range(threads)))

    with asyncio.Runner(loop_factory=lambda: loop.new("asyncio", server)) as runner:
        runner.run(main())
    assert len(seen) == threads * rounds


def test_a_loop_that_is_woken_by_a_thread_reads_no_socket(server: Server) -> None:
    """The way of asyncio takes two more system calls and a callback for each time."""

    async def main() -> int:
        running: Any = asyncio.get_running_loop()
        reads = 0

        def read() -> None:
            nonlocal reads
            reads += 1
            running._ssock.recv(4096)

        running.add_reader(running._ssock, read)
        for _ in range(10):
            await asyncio.to_thread(int)
        return reads

    with asyncio.Runner(loop_factory=lambda: loop.new("asyncio", server)) as runner:
        assert runner.run(main()) == 0


def standard() -> selectors.BaseSelector:
    return selectors.EpollSelector()


@pytest.mark.parametrize("kind", ["standard", "own"])
def test_a_closed_file_object_is_found_by_identity(
    server: Server, pair: tuple[socket.socket, socket.socket], kind: str
) -> None:
    """Whatever holds for the standard selectors holds for ours."""
    tested = selector(server) if kind == "own" else standard()
    here, there = pair
    fd = here.fileno()
    assert tested.get_map().get(here) is None
    key = tested.register(here, selectors.EVENT_READ, "data")
    assert key == (here, fd, selectors.EVENT_READ, "data")
    mapping = tested.get_map()
    assert mapping[here] is mapping[fd] is mapping.get(fd) is tested.get_key(here)
    assert (list(mapping), list(mapping.values()), len(mapping)) == ([fd], [key], 1)
    assert there not in mapping
    assert mapping.get(there, key) is key
    here.close()
    assert here in mapping
    assert tested.get_key(here) is key
    assert tested.unregister(here) is key
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        mapping.get(here)
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        tested.unregister(here)
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        tested.register(here, selectors.EVENT_READ)
    with pytest.raises(ValueError, match="Invalid file object: 'text'"):
        tested.register("text", selectors.EVENT_READ)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="is not registered"):
        tested.modify(there, selectors.EVENT_READ)
    with pytest.raises(KeyError):
        mapping[there]
    tested.close()


@pytest.mark.parametrize("kind", ["standard", "own"])
def test_a_key_whose_descriptor_is_another_one_now_is_forgotten_when_it_is_modified(
    server: Server, pair: tuple[socket.socket, socket.socket], kind: str
) -> None:
    """A library closed it without a word. The number can be registered again."""
    tested = selector(server) if kind == "own" else standard()
    here, there = pair
    fd = here.fileno()
    tested.register(fd, selectors.EVENT_READ)
    here.close()
    other = os.dup2(there.fileno(), fd)
    try:
        with pytest.raises(FileNotFoundError):
            tested.modify(fd, selectors.EVENT_WRITE)
        assert fd not in tested.get_map()
        key = tested.register(fd, selectors.EVENT_WRITE)
        assert tested.get_key(fd) is key
    finally:
        os.close(other)


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_a_loop_without_memory_goes_on(
    name: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised where there was none to report what a callback has raised."""
    running = loop.new(name, server)
    run = super(loop.Persistent, running).run_forever
    runs: list[bool] = []

    def run_forever(_: object) -> None:
        runs.append(True)
        if len(runs) < 3:
            raise MemoryError
        run()

    monkeypatch.setattr(loop.TaskSettings, "run_forever", run_forever, raising=False)
    assert running.run_until_complete(asyncio.sleep(0, "done")) == "done"
    assert len(runs) == 3
    running.stop()
    runs.clear()
    running.run_forever()
    assert len(runs) == 1, "it is stopped although memory was short"
    running.close()


class Held:
    """What a handler holds."""


def serve_without_end(path: str, is_stopped: bool) -> list[weakref.ref[Any]]:
    """Close a loop while a handler waits; return references to its task, and to what it holds."""
    found: list[weakref.ref[Any]] = []
    app = App()

    def note(own: Held) -> None:
        found.extend([weakref.ref(own), weakref.ref(asyncio.current_task())])

    @app.get("/request")
    async def wait(request: Request) -> None:
        note(own := Held())
        await asyncio.get_running_loop().create_future()
        del own

    @app.websocket("/websocket")
    async def receive(websocket: WebSocket) -> None:
        note(own := Held())
        await websocket.receive()
        del own

    async def main() -> None:
        server.attach(asyncio.get_running_loop(), own_selector=True)
        server.adopt(there.fileno())
        here.sendall(handshake(path))
        while not found:
            await asyncio.sleep(0)

    settings = resolve({})
    held = application(app, "test:app", settings)
    server = Server(held.core(), settings.server_options(None))
    here, there = socket.socketpair()
    with here, there:
        running = loop.new("asyncio", server)
        running.run_until_complete(main())
        if is_stopped:
            server.stop()
        running.close()
    return found


@pytest.mark.parametrize("path", ["/request", "/websocket"])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_handler_that_waits_when_its_loop_is_closed_is_freed(path: str, is_stopped: bool) -> None:
    found = serve_without_end(path, is_stopped)
    gc.collect()
    assert [reference() for reference in found] == [None, None]
