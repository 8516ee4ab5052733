"""Puts the packages of a user's application behind those of the server that runs it.

Python imports this at its start. A server keeps its own versions; what it has not is found in the
environment that `bolide race --app` was started from.
"""

import os
import sys

sys.path.extend(
    path for path in os.environ.get("RACE_USER_PATH", "").split(os.pathsep) if path not in sys.path
)
