"""Start meinheld: `start_meinheld.py MODULE:ATTRIBUTE HOST PORT`."""

import importlib
import sys

from meinheld import server

module, _, attribute = sys.argv[1].partition(":")
server.set_access_logger(None)
server.set_keepalive(75)
server.set_backlog(4096)
server.listen((sys.argv[2], int(sys.argv[3])))
server.run(getattr(importlib.import_module(module), attribute))
