"""How a race is asked to end: Ctrl-C, TERM, and HUP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminable() -> Iterator[None]:
    """Treat TERM like Ctrl-C: all processes are ended, and all results are kept.

    HUP is treated the same way, unless it is ignored (nohup).
    """

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    earlier = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        if earlier[number] is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ENDING:
            signal.signal(number, earlier[number])
