"""Checks of a handler's own I/O on the loop that serves it: sockets, processes, threads, signals.

A small server, started with the application, echoes lines of text; the checks are its clients.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import threading
from typing import Any

from probe import Probes, same

READS = 1000
ASYNCIO_READ_BYTES = 256 * 1024

probe = Probes()
app = probe.app


@app.on_startup
async def start_echo() -> None:
    """Start a server that echoes each line, the slow ones later."""
    app.state.echo = await asyncio.start_server(echo, "127.0.0.1", 0)
    app.state.address = app.state.echo.sockets[0].getsockname()


@app.on_shutdown
async def stop_echo() -> None:
    """Stop it."""
    app.state.echo.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo lines; one that asks for it is echoed after those that follow at once."""

    async def respond(line: bytes) -> None:
        if line.startswith(b"slow"):
            await asyncio.sleep(0.005)
        writer.write(line)

    async with asyncio.TaskGroup() as group:
        while line := await reader.readline():
            group.create_task(respond(line))
    writer.close()


@probe
async def large_reads() -> None:
    # A read into as much room as asyncio makes is no new mapping of memory each time.
    near, far = socket.socketpair()
    with near, far:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(READS):
            near.send(b"x")
            same(far.recv(ASYNCIO_READ_BYTES), b"x")
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < READS, f"{faults} page faults"


@probe
async def streams() -> None:
    # A connection of asyncio's streams.
    reader, writer = await asyncio.open_connection(*app.state.address)
    for number in range(5):
        writer.write(b"%d\n" % number)
        await writer.drain()
        same(await reader.readline(), b"%d\n" % number)
    writer.close()
    await writer.wait_closed()


@probe
async def much_through_a_stream() -> None:
    """More than the socket's buffers hold, both ways at the same time."""
    reader, writer = await asyncio.open_connection(*app.state.address)
    line, times = b"x" * 65_000 + b"\n", 40

    async def write() -> None:
        for _ in range(times):
            writer.write(line)
            await writer.drain()

    async def read() -> int:
        return sum([len(await reader.readexactly(len(line))) for _ in range(times)])

    _, size = await asyncio.gather(write(), read())
    same(size, len(line) * times)
    writer.close()
    await writer.wait_closed()


@probe
async def plain_sockets() -> None:
    # A socket that the loop waits for.
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, app.state.address)
        await loop.sock_sendall(client, b"plain\n")
        same(await loop.sock_recv(client, 100), b"plain\n")


@probe
async def refused_connection() -> None:
    # A connection that nobody accepts.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        try:
            await asyncio.open_connection(*closed.getsockname())
        except ConnectionRefusedError:
            return
    raise AssertionError("it was accepted")


class Multiplexer(asyncio.Protocol):
    """A client that sends queries of many tasks over one connection, as database drivers do."""

    def __init__(self) -> None:
        self._rest = b""
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Give each response to the task that waits for it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._waiting.pop(line).set_result(line)

    async def query(self, text: bytes) -> bytes:
        """Send a query and wait for its response."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[text] = future
        self.transport.write(text + b"\n")
        return await future


@probe
async def multiplexed_connection() -> None:
    """Many queries on one transport, with replies in another order."""
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(Multiplexer, *app.state.address)
    texts = [b"%s%d" % (b"slow" if number % 3 else b"fast", number) for number in range(60)]
    same(await asyncio.gather(*map(client.query, texts)), texts)
    transport.close()


@probe
async def datagrams() -> None:
    """Two UDP sockets."""
    loop = asyncio.get_running_loop()
    received = loop.create_future()

    class Receiver(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, address: Any) -> None:
            received.set_result(data)

    there, _ = await loop.create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", 0))
    address = there.get_extra_info("sockname")
    here, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
    here.sendto(b"datagram")
    same(await received, b"datagram")
    here.close()
    there.close()


@probe
async def readers_and_writers() -> None:
    """Descriptors that the loop watches, changes and forgets."""
    loop = asyncio.get_running_loop()
    read_fd, write_fd = os.pipe()
    ready: asyncio.Queue[str] = asyncio.Queue()

    def writable() -> None:
        loop.remove_writer(write_fd)
        os.write(write_fd, b"x")
        ready.put_nowait("writer")

    def readable() -> None:
        os.read(read_fd, 1)
        ready.put_nowait("reader")

    loop.add_reader(read_fd, readable)
    loop.add_writer(write_fd, writable)
    same([await ready.get(), await ready.get()], ["writer", "reader"])
    loop.remove_reader(read_fd)
    assert not loop.remove_reader(read_fd)
    os.close(read_fd)
    os.close(write_fd)
    await asyncio.sleep(0)


@probe
async def subprocess() -> None:
    # A process with its pipes, and its end.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "print(input()[::-1]); raise SystemExit(3)",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(b"abc\n")
    same((out, process.returncode), (b"cba\n", 3))


@probe
async def threads() -> None:
    """Work in the executor, many at the same time."""
    loop = asyncio.get_running_loop()
    same(await asyncio.to_thread(sum, [1, 2]), 3)
    numbers = [loop.run_in_executor(None, abs, -number) for number in range(40)]
    same(await asyncio.gather(*numbers), list(range(40)))
    assert await asyncio.to_thread(threading.get_ident) != threading.get_ident()


@probe
async def future_of_a_thread() -> None:
    # A future that a thread settles when nothing else happens.
    loop = asyncio.get_running_loop()
    future, go = loop.create_future(), threading.Event()

    def settle() -> None:
        go.wait(5)
        loop.call_soon_threadsafe(future.set_result, "settled")

    thread = threading.Thread(target=settle)
    thread.start()
    loop.call_soon(go.set)
    same(await future, "settled")
    thread.join()


@probe
async def coroutine_of_a_thread() -> None:
    # A thread that runs a coroutine on the loop and waits for it.
    loop = asyncio.get_running_loop()

    def ask() -> int:
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0.001, 7), loop).result(5)

    same(await asyncio.to_thread(ask), 7)


@probe
async def timers() -> None:
    """Timers fire in their order, while nothing else happens, and not when cancelled."""
    loop = asyncio.get_running_loop()
    fired: list[int] = []
    done = asyncio.Event()
    begin = loop.time()
    for number in (3, 1, 2):
        loop.call_later(number / 500, fired.append, number)
    loop.call_later(0.004, fired.append, 0).cancel()
    loop.call_at(begin + 0.01, done.set)
    await done.wait()
    same(fired, [1, 2, 3])
    assert 0.009 <= loop.time() - begin < 1


@probe
async def signals() -> None:
    # A handler of a signal that asyncio runs.
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR2, came.set)
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        await came.wait()
        came.clear()
        loop.call_later(0.002, os.kill, os.getpid(), signal.SIGUSR2)
        await came.wait()
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)


@probe
async def async_generators() -> None:
    # A generator that is left halfway is closed by the loop.
    closed = asyncio.Event()

    async def numbers() -> Any:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.set()

    async for _ in numbers():
        break
    await closed.wait()


@probe
async def names() -> None:
    # A look-up of a name, in the executor.
    found = await asyncio.get_running_loop().getaddrinfo("localhost", 80)
    assert found
