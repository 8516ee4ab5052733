"""Streams and transports of the application's own."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from differential.programs.table import Receive, Scope, Send, outcome, program


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Yield line by line."""
    async for line in reader:
        writer.write(line.upper())
        await writer.drain()
    writer.close()
    await writer.wait_closed()


@program()
async def stream_server_and_client(scope: Scope, receive: Receive, send: Send) -> Any:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(*address)
        writer.writelines([b"one\n", b"two\n"])
        seen = [(await reader.readline()).decode(), (await reader.readuntil(b"O\n")).decode()]
        writer.write_eof()
        seen.append((await reader.read()).decode())
        writer.close()
        await writer.wait_closed()
    return [seen, reader.at_eof(), server.is_serving()]


@program()
async def stream_errors(scope: Scope, receive: Receive, send: Send) -> Any:
    reader = asyncio.StreamReader(limit=4)
    reader.feed_data(b"longer than that\n")
    seen = [(await outcome(reader.readuntil(b"\n")))[0]]
    seen.append((await outcome(reader.readexactly(10)))[0:0] or "ten")
    reader.feed_eof()
    seen.append(await outcome(reader.readexactly(100)))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    seen.append((await outcome(asyncio.open_connection("127.0.0.1", port)))[0])
    return seen


@program()
async def unix_sockets(scope: Scope, receive: Receive, send: Send) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        async with await asyncio.start_unix_server(echo, path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"unix\n")
            line = (await reader.readline()).decode()
            writer.close()
            await writer.wait_closed()
    return line


class Heard(asyncio.Protocol, asyncio.DatagramProtocol):
    """Logs what a transport reports."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.changed = asyncio.Event()

    def note(self, what: Any) -> None:
        """Log it."""
        self.log.append(what)
        self.changed.set()

    def connection_made(self, transport: Any) -> None:
        self.note("made")

    def data_received(self, data: bytes) -> None:
        self.note(data.decode())

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.note(data.decode())

    def eof_received(self) -> None:
        self.note("eof")

    def connection_lost(self, error: Exception | None) -> None:
        self.note(["lost", repr(error)])

    async def wait(self, entries: int) -> list[Any]:
        """Wait until so much is logged."""
        while len(self.log) < entries:
            self.changed.clear()
            await self.changed.wait()
        return self.log


@program()
async def protocol_callbacks(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, heard = asyncio.get_running_loop(), Heard()
    ours, other = socket.socketpair()
    with other:
        transport, _ = await loop.create_connection(lambda: heard, sock=ours)
        transport.write(b"to the other")
        received = (await loop.run_in_executor(None, other.recv, 100)).decode()
        other.sendall(b"to us")
        await heard.wait(2)
        other.shutdown(socket.SHUT_WR)
        return [received, await heard.wait(4), transport.is_closing()]


@program()
async def datagrams(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    server, heard = await loop.create_datagram_endpoint(Heard, local_addr=("127.0.0.1", 0))
    address = server.get_extra_info("sockname")
    client, _ = await loop.create_datagram_endpoint(Heard, remote_addr=address)
    client.sendto(b"datagram")
    log = list(await heard.wait(2))
    client.close()
    server.close()
    return [log, (await heard.wait(3))[-1]]


@program()
async def pipes(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as sink:
        reader, heard = await loop.connect_read_pipe(Heard, source)
        writer, _ = await loop.connect_write_pipe(Heard, sink)
        writer.write(b"through a pipe")
        log = list(await heard.wait(2))
        writer.close()
        await heard.wait(4)
        reader.close()
    return [log, heard.log[2:]]


@program()
async def flow_control(scope: Scope, receive: Receive, send: Send) -> Any:
    """Wait until the reader makes room."""
    gate = asyncio.Event()
    total = 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal total
        await gate.wait()
        while part := await reader.read(65_536):
            total += len(part)
        writer.close()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"x" * 20_000_000)
        draining = asyncio.create_task(writer.drain())
        await asyncio.sleep(0.001)
        waited = not draining.done()
        gate.set()
        await draining
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    return [waited, total]


@program()
async def listener_is_closed_again(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Heard, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    refused = await outcome(asyncio.open_connection("127.0.0.1", port))
    return [refused[0], server.is_serving()]


@program()
async def file_over_a_socket(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    ours, other = socket.socketpair()
    ours.setblocking(False)
    other.setblocking(False)
    with ours, other, tempfile.TemporaryFile() as file:
        file.write(b"f" * 5_000)
        file.seek(0)
        sent = await loop.sock_sendfile(ours, file)
        received = 0
        while received < sent:
            received += len(await loop.sock_recv(other, 10_000))
        return [sent, received]
