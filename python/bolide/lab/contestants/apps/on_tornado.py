"""The content from Tornado: `on_tornado.py HOST PORT`."""

import asyncio
import sys

import tornado.web
from content import CONTENT, TARGET


class Hello(tornado.web.RequestHandler):
    """Answers GET."""

    def compute_etag(self):
        """Have none: it would be computed from every answer's content."""

    def get(self):
        """Answer."""
        self.set_header("Content-Type", "text/plain")
        self.write(CONTENT)


async def main():
    """Serve for ever."""
    app = tornado.web.Application([(TARGET, Hello)], log_function=lambda handler: None)
    app.listen(int(sys.argv[2]), sys.argv[1], backlog=4096)
    await asyncio.Event().wait()


asyncio.run(main())
