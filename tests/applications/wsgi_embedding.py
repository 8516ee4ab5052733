"""Serve the plain WSGI application inside a loop that runs already: THREADS LOOP."""

import asyncio
import signal
import sys

import uvloop
from wsgi_plain import app

import bolide
from bolide.server import logs

FACTORIES = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


async def main(threads: int) -> None:
    """Serve until TERM."""
    serving = asyncio.create_task(bolide.serve(app, port=0, threads=threads))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    await asyncio.wait([serving])


logs.configure("info")
with asyncio.Runner(loop_factory=FACTORIES[sys.argv[2]]) as runner:
    runner.run(main(int(sys.argv[1])))
