"""Start FastPySGI: `start_fastpysgi.py MODULE:ATTRIBUTE PORT INTERFACE`."""

import importlib
import sys

import fastpysgi

module, _, attribute = sys.argv[1].partition(":")
fastpysgi.server.tcp_nodelay = 1
if sys.argv[3] == "asgi":
    import uvloop

    fastpysgi.server.loop = uvloop.new_event_loop()
fastpysgi.run(getattr(importlib.import_module(module), attribute), "127.0.0.1", int(sys.argv[2]))
