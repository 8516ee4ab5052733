"""The content from aiohttp: `on_aiohttp.py application|server asyncio|uvloop HOST PORT`.

With and without `web.Application`, as in the document that compares the two.
"""

import asyncio
import sys

from aiohttp import web
from content import CONTENT, NOT_FOUND, TARGET

BACKLOG = 4096


async def hello(request):
    """Return the content: a routed handler."""
    return web.Response(body=CONTENT, content_type="text/plain")


async def any_path(request):
    """Return the content of TARGET, without a router."""
    if request.path != TARGET:
        return web.Response(status=404, body=NOT_FOUND)
    return web.Response(body=CONTENT, content_type="text/plain")


async def serve(kind, host, port):
    """Serve forever."""
    if kind == "application":
        application = web.Application()
        application.router.add_get(TARGET, hello)
        runner = web.AppRunner(application, access_log=None)
    else:
        runner = web.ServerRunner(web.Server(any_path, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    await asyncio.Event().wait()


def main(kind, loop, host, port):
    """Run on the named event loop."""
    if loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve(kind, host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
