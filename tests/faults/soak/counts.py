"""Counts of what was sent, begun and ended: a file of each process, which others can read."""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections import Counter
from pathlib import Path

RECORD = struct.Struct("64sQ")
RECORDS_MAX = 200


class Counts:
    """The counts of this process, in a file, which survives it however it ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / str(os.getpid())
        path.write_bytes(bytes(RECORD.size * RECORDS_MAX))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._places: dict[str, int] = {}
        self._values: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._write(name, self._values.get(name, 0) + count)

    def set(self, name: str, value: int) -> None:
        """Replace a count."""
        with self._lock:
            self._write(name, value)

    def _write(self, name: str, value: int) -> None:
        place = self._places.setdefault(name, len(self._places))
        self._values[name] = value
        RECORD.pack_into(self._memory, place * RECORD.size, name.encode(), value)


def read(path: Path) -> Counter[str]:
    """Return what one process has counted."""
    octets = path.read_bytes() if path.exists() else b""
    records = RECORD.iter_unpack(octets[: len(octets) // RECORD.size * RECORD.size])
    return Counter({name.rstrip(b"\0").decode(): value for name, value in records if name[0]})


def total(folder: Path) -> Counter[str]:
    """Return the sums over all processes."""
    counts: Counter[str] = Counter()
    for path in folder.iterdir() if folder.exists() else ():
        counts.update(read(path))
    return counts


def disagreements(clients: Counter[str], application: Counter[str]) -> list[str]:
    """Return where the clients' counts and the application's differ, for each kind of request.

    A request that has a complete response was begun and finished once, with all of its content. One
    that was refused was never begun. Of those whose clients leave, only as many were begun as sent,
    and each has ended.
    """
    wrong = []
    kinds = sorted({name.partition(" ")[0] for name in (*clients, *application)})
    for kind in kinds:

        def of(counts: Counter[str], word: str, kind: str = kind) -> int:
            return counts[f"{kind} {word}"]

        if lost := of(clients, "lost"):
            wrong.append(f"{kind}: {lost} requests were lost")
        if odd := of(clients, "wrong"):
            wrong.append(f"{kind}: {odd} responses were not those of their requests")
        if of(application, "begun") != of(application, "ended"):
            begun, ended = of(application, "begun"), of(application, "ended")
            wrong.append(f"{kind}: {begun} were begun, {ended} ended")
        if of(clients, "left"):
            if of(application, "begun") > of(clients, "left"):
                wrong.append(f"{kind}: {of(application, 'begun')} were begun of fewer sent")
            continue
        for word, its in (("complete", "begun"), ("sent octets", "octets"), ("got", "made")):
            if of(clients, word) != of(application, its):
                theirs, ours = of(clients, word), of(application, its)
                wrong.append(f"{kind}: clients have {theirs} {word}, the application {ours} {its}")
    return wrong
