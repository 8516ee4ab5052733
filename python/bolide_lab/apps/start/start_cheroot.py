"""Start cheroot, CherryPy's server: `start_cheroot.py MODULE:ATTRIBUTE HOST PORT`."""

import importlib
import sys

from cheroot.wsgi import Server

module, _, attribute = sys.argv[1].partition(":")
app = getattr(importlib.import_module(module), attribute)
server = Server((sys.argv[2], int(sys.argv[3])), app, numthreads=1, request_queue_size=4096)
server.keep_alive_conn_limit = None  # by default, the eleventh connection gets Connection: close
try:
    server.start()
finally:
    server.stop()
