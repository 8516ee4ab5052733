"""The content from an asyncio protocol with httptools: `on_httptools.py LOOP HOST PORT`.

Like the program of the document that compares it with aiohttp, but leaner. /N returns N bytes, /
returns the content.
"""

import asyncio
import socket
import sys

import httptools
from content import CONTENT, NOT_FOUND, TARGET

BACKLOG = 4096
SIZE_MAX = 1 << 24
made = {TARGET.encode(): CONTENT}


def found(path):
    """Return the content of a path; None if there is none."""
    if path not in made:
        number = path[1:]
        if not number.isdigit() or int(number) > SIZE_MAX:
            return None
        made[path] = b"X" * int(number)
    return made[path]


class HttpProtocol(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport):
        """Store the transport."""
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        stream = transport.get_extra_info("socket")
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data):
        """Parse what arrived."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url):
        """Store the request target."""
        self._url = url

    def on_message_complete(self):
        """Send the response."""
        content = found(httptools.parse_url(self._url).path)
        status = b"200 OK" if content is not None else b"404 Not Found"
        content = NOT_FOUND if content is None else content
        is_kept = self._parser.should_keep_alive()
        version = self._parser.get_http_version()
        connection = b"Connection: close\r\n"
        if is_kept:
            connection = b"Connection: keep-alive\r\n" if version == "1.0" else b""
        head = b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\n%bContent-Length: %d\r\n\r\n"
        self._transport.write(head % (status, connection, len(content)) + content)
        if not is_kept:
            self._transport.close()


async def serve(host, port):
    """Serve forever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(HttpProtocol, host, port, backlog=BACKLOG)
    await server.serve_forever()


def main(loop, host, port):
    """Run on the named event loop."""
    if loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
