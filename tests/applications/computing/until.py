"""How an application keeps its thread until a test has seen what it was to see."""

import os
from pathlib import Path


def keep(way: str, path: str) -> None:
    """Say that the thread is kept, and keep it."""
    Path(f"{path}.kept").touch()
    let_go(way, path)


def let_go(way: str, path: str) -> None:
    """Block or compute until a FIFO at a path is written to, or a file is there.

    Without a path, do nothing.
    """
    if not path:
        return
    if way == "blocks":
        # Opened for both, so that it has no end when the test closes it.
        fifo = os.open(path, os.O_RDWR)
        assert os.read(fifo, 1)
        os.close(fifo)
    else:
        while not os.path.exists(path):
            sum(range(100))
        Path(path).unlink()
