"""WebSockets from Tornado: /echo sends a message back, /broadcast to all.

`on_tornado.py HOST PORT`.
"""

import asyncio
import sys

import tornado.web
import tornado.websocket
import uvloop

receivers = set()


class Echo(tornado.websocket.WebSocketHandler):
    """Sends every message back."""

    def get_compression_options(self):
        """Accept permessage-deflate at its usual level."""
        return {"compression_level": 6}

    def check_origin(self, origin):
        """Accept every origin."""
        return True

    def on_message(self, message):
        """Send the same content."""
        return self.write_message(message, binary=isinstance(message, bytes))


class Broadcast(Echo):
    """Sends every message to all connections."""

    def open(self):
        """Receive messages from now on."""
        receivers.add(self)

    def on_close(self):
        """Receive none any more."""
        receivers.discard(self)

    def on_message(self, message):
        """Send the same content to all."""
        for each in tuple(receivers):
            each.write_message(message, binary=isinstance(message, bytes))


async def serve(host, port):
    """Serve forever."""
    handlers = [("/echo", Echo), ("/broadcast", Broadcast)]
    app = tornado.web.Application(handlers, log_function=lambda handler: None)
    app.listen(int(port), host, backlog=4096)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(*sys.argv[1:]))
