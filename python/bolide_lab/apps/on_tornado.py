"""The content from Tornado: `on_tornado.py asyncio|uvloop HOST PORT`."""

import asyncio
import sys

import tornado.web
from content import CONTENT, TARGET


class Hello(tornado.web.RequestHandler):
    """Serves GET."""

    def compute_etag(self):
        """Send no ETag, which would be computed from the content of every response."""

    def get(self):
        """Send the content."""
        self.set_header("Content-Type", "text/plain")
        self.write(CONTENT)


async def serve(host, port):
    """Serve forever."""
    app = tornado.web.Application([(TARGET, Hello)], log_function=lambda handler: None)
    app.listen(int(port), host, backlog=4096)
    await asyncio.Event().wait()


def main(loop, host, port):
    """Run on the named event loop."""
    if loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(host, port))


if __name__ == "__main__":
    main(*sys.argv[1:])
