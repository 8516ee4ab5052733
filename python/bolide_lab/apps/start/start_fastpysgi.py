"""Start FastPySGI: `start_fastpysgi.py MODULE:ATTRIBUTE HOST PORT INTERFACE`."""

import importlib
import sys

import fastpysgi

module, _, attribute = sys.argv[1].partition(":")
app = getattr(importlib.import_module(module), attribute)
fastpysgi.server.backlog = 4096
fastpysgi.server.tcp_nodelay = 1
if sys.argv[4] == "asgi":
    import uvloop

    fastpysgi.server.loop = uvloop.new_event_loop()
fastpysgi.run(app, sys.argv[2], int(sys.argv[3]))
