"""Start bjoern: `start_bjoern.py MODULE:ATTRIBUTE PORT`."""

import importlib
import sys

import bjoern

module, _, attribute = sys.argv[1].partition(":")
bjoern.run(getattr(importlib.import_module(module), attribute), "127.0.0.1", int(sys.argv[2]))
