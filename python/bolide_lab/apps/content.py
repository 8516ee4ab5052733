"""The content that the laboratory's applications serve, and its target. Runs on any Python 3."""

import os

CONTENT = os.environ.get("RACE_CONTENT", "Hello, World!").encode()
TARGET = os.environ.get("RACE_TARGET", "/")
NOT_FOUND = b"Not Found"
