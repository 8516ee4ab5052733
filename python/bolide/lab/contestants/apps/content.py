"""What the laboratory's applications answer with, and where. Runs on any Python 3."""

import os

CONTENT = os.environ.get("RACE_CONTENT", "Hello, World!").encode()
TARGET = os.environ.get("RACE_TARGET", "/")
NOT_FOUND = b"Not Found"
