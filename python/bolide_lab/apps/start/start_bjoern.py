"""Start bjoern: `start_bjoern.py MODULE:ATTRIBUTE HOST PORT`."""

import importlib
import sys

import bjoern

module, _, attribute = sys.argv[1].partition(":")
app = getattr(importlib.import_module(module), attribute)
bjoern.run(app, sys.argv[2], int(sys.argv[3]), listen_backlog=4096)
