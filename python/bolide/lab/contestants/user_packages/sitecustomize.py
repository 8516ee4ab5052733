"""Adds the packages of a user's application after those of the server that runs it.

Python imports this at startup. The server keeps its own versions; packages that it does not have
come from the environment that `bolide race --app` was started from.
"""

import os
import sys

sys.path.extend(
    path for path in os.environ.get("RACE_USER_PATH", "").split(os.pathsep) if path not in sys.path
)
