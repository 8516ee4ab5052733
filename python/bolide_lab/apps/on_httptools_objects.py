"""The document's own program on httptools: `on_httptools_objects.py LOOP HOST PORT`.

It makes a parser, a request and a response for each request, and runs the handler in a later step
of the loop. `on_httptools.py` does the same with less. /N is N bytes, / is the content.
"""

import asyncio
import socket
import sys

import httptools
from content import CONTENT

BACKLOG = 4096
made = {}


class HttpRequest:
    """A request, which the handler does not use."""

    def __init__(self, protocol, url, headers, version):
        self._protocol = protocol
        self._url = url
        self._headers = headers
        self._version = version


class HttpResponse:
    """A response, written in one piece."""

    def __init__(self, protocol, request):
        self._protocol = protocol
        self._request = request
        self._headers_sent = False

    def write(self, data):
        """Write the status line, two fields and the content."""
        self._protocol._transport.write(
            b"".join(
                [
                    f"HTTP/{self._request._version} 200 OK\r\n".encode("latin-1"),
                    b"Content-Type: text/plain\r\n",
                    f"Content-Length: {len(data)}\r\n".encode("latin-1"),
                    b"\r\n",
                    data,
                ]
            )
        )


class HttpProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, *, loop):
        self._loop = loop
        self._transport = None
        self._current_request = None
        self._current_parser = None
        self._current_url = None
        self._current_headers = None

    def on_url(self, url):
        """Keep the target."""
        self._current_url = url

    def on_header(self, name, value):
        """Keep a field."""
        self._current_headers.append((name, value))

    def on_headers_complete(self):
        """Schedule the handler."""
        version = self._current_parser.get_http_version()
        self._current_request = HttpRequest(self, self._current_url, self._current_headers, version)
        response = HttpResponse(self, self._current_request)
        self._loop.call_soon(self.handle, self._current_request, response)

    def connection_made(self, transport):
        """Keep the connection."""
        self._transport = transport
        stream = transport.get_extra_info("socket")
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error):
        """Drop the request."""
        self._current_request = self._current_parser = None

    def data_received(self, data):
        """Parse what arrived."""
        if self._current_parser is None:
            self._current_headers = []
            self._current_parser = httptools.HttpRequestParser(self)
        self._current_parser.feed_data(data)

    def handle(self, request, response):
        """Respond."""
        parsed_url = httptools.parse_url(self._current_url)
        name = parsed_url.path.decode("ascii")[1:]
        content = made.get(name)
        if content is None:
            content = made[name] = b"X" * int(name) if name else CONTENT
        response.write(content)
        if not self._current_parser.should_keep_alive():
            self._transport.close()
        self._current_parser = None
        self._current_request = None


async def serve(host, port):
    """Serve forever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpProtocol(loop=loop), host, port, backlog=BACKLOG)
    await server.serve_forever()


def main(loop, host, port):
    """Run on the loop of that name."""
    if loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
