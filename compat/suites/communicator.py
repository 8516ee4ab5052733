"""Replaces `asgiref.testing.ApplicationCommunicator`: the same calls, over a socket.

What a test sends as events becomes a request of HTTP/1.1, and the response becomes events again,
without the fields that a server adds. A test whose events no request can cause skips itself, and
says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any
from unittest import SkipTest

from live import Live, Recorded

SERVER = os.environ["COMPAT_SERVER"]
ADDED_BY_SERVERS = {b"date", b"server", b"connection", b"transfer-encoding"}

requests_sent = 0


class LiveCommunicator:
    """One request to an application that is served for it alone."""

    def __init__(self, application: Any, scope: dict[str, Any]) -> None:
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        if scope["type"] != "http":
            raise SkipTest("a scope of a type that no server here sends")
        self._scope = scope
        self._recorded = Recorded(application, has_lifespan=False)
        self._live = Live(self._recorded, SERVER)
        self._is_chunked_request = self._has_ended = False
        self._has_status = self._has_left = False
        self._left: int | None = None
        """Octets of the content that are expected; `None` if it comes in chunks."""

    async def send_input(self, message: dict[str, Any]) -> None:
        """Send what would cause this event."""
        if message["type"] == "http.disconnect":
            if self._writer is None:
                raise SkipTest("the disconnect of a request that was never sent")
            self._writer.close()
            self._has_left = True
            return
        if self._has_ended:
            await self.wait()  # what it began must not end in another test
            raise SkipTest("two whole requests in one scope")
        if self._writer is None:
            await self._connect(message)
        assert self._writer is not None
        body, has_more = message.get("body", b""), message.get("more_body", False)
        if self._is_chunked_request and body:
            body = b"%x\r\n%s\r\n" % (len(body), body)
        self._has_ended = not has_more
        end = b"0\r\n\r\n" if self._is_chunked_request and not has_more else b""
        self._writer.write(body + end)
        await self._writer.drain()

    async def _connect(self, message: dict[str, Any]) -> None:
        """Start the server and send the header section."""
        global requests_sent
        scope, length = self._scope, len(message.get("body", b""))
        fields = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
        announced = [int(value) for name, value in fields if name.lower() == b"content-length"]
        self._is_chunked_request = message.get("more_body", False)
        if announced and (self._is_chunked_request or announced != [length]):
            raise SkipTest("a Content-Length that is not the content's")
        if not announced:
            framing = [(b"transfer-encoding", b"chunked")] if self._is_chunked_request else []
            fields += framing or [(b"content-length", b"%d" % length)]
        if not any(name.lower() == b"host" for name, _ in fields):
            fields.append((b"host", b"testserver"))
        query = scope.get("query_string", b"")
        query = query.encode() if isinstance(query, str) else query
        target = scope["path"].encode() + (b"?" + query if query else b"")
        head = b"%s %s HTTP/1.1\r\n" % (scope["method"].encode(), target)
        head += b"".join(b"%s: %s\r\n" % field for field in fields) + b"\r\n"
        await asyncio.to_thread(self._live.start)
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._live.port)
        self._writer.write(head)
        requests_sent += 1

    async def receive_output(self, timeout: float = 1) -> dict[str, Any]:
        """Return the next event of the response.

        Raises:
            TimeoutError: none came in time, or the connection was closed in place of it.
        """
        if self._reader is None or self._has_left:
            raise TimeoutError
        try:
            async with asyncio.timeout(timeout):
                return await (self._part() if self._has_status else self._start())
        except (asyncio.IncompleteReadError, ConnectionError):
            raise TimeoutError from None

    async def _start(self) -> dict[str, Any]:
        assert self._reader is not None
        head = await self._reader.readuntil(b"\r\n\r\n")
        status_line, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        fields = [tuple(line.split(b": ", 1)) for line in lines]
        self._has_status = True
        status = int(status_line.split()[1])
        known = {name.lower(): value for name, value in fields}
        if known.get(b"transfer-encoding") != b"chunked":
            has_content = self._scope["method"] != "HEAD" and status not in (204, 304)
            self._left = int(known.get(b"content-length", 0)) if has_content else 0
        kept = [field for field in fields if field[0].lower() not in ADDED_BY_SERVERS]
        return {"type": "http.response.start", "status": status, "headers": kept}

    async def _part(self) -> dict[str, Any]:
        assert self._reader is not None
        if self._left is None:
            size = int(await self._reader.readline(), 16)
            body = (await self._reader.readexactly(size + 2))[:-2]
            return {"type": "http.response.body", "body": body, "more_body": size > 0}
        body = await self._reader.readexactly(self._left)
        return {"type": "http.response.body", "body": body, "more_body": False}

    async def receive_nothing(self, timeout: float = 0.1, interval: float = 0.01) -> bool:
        """Return whether nothing comes for a time."""
        try:
            await self.receive_output(timeout)
        except TimeoutError:
            return True
        return False

    async def wait(self, timeout: float = 1) -> None:
        """Wait for the end of the application's call, and raise what it raised."""
        try:
            begun = 0 if self._has_status else 1
            await asyncio.to_thread(self._recorded.wait_idle, begun)
        finally:
            self.stop(exceptions=True)
        error = self._recorded.take_error()
        if error is not None:
            raise error

    def stop(self, exceptions: bool = True) -> None:
        """Close the connection and end the server."""
        if self._writer is not None:
            self._writer.close()
            self._live.stop()

    def __del__(self) -> None:
        """End the server of a test that did not wait; its event loop may have ended before."""
        if self._writer is not None:
            with contextlib.suppress(RuntimeError):
                self._writer.transport.abort()
            self._live.stop()
