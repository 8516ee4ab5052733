"""Start FastWSGI: `start_fastwsgi.py MODULE:ATTRIBUTE HOST PORT`."""

import importlib
import sys

import fastwsgi

module, _, attribute = sys.argv[1].partition(":")
fastwsgi.server.backlog = 4096
fastwsgi.server.tcp_nodelay = 1
fastwsgi.run(
    getattr(importlib.import_module(module), attribute),
    host=sys.argv[2],
    port=int(sys.argv[3]),
    loglevel=0,
)
