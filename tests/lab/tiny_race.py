"""Races that end soon: contestants that misbehave, short workloads, and a display that records."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bolide.lab import race
from bolide.lab.plan.contestant import Contestant, Entry, Setup
from bolide.lab.plan.schedule import Slot
from bolide.lab.record import journal
from bolide.lab.record.schema import Study, Trial, Workload

LIAR = Path(__file__).with_name("liar.py")
CPU = min(os.sched_getaffinity(0))
"""A processor that these tests may run on."""


def liar(way: str, **more: Any) -> Contestant:
    """Make a contestant that lies in this way."""
    entry = Entry(
        name=way,
        title=way,
        interface="own",
        command=("{python}", str(LIAR), way, "{host}", "{port}"),
        **more,
    )
    return Contestant(key=way, language="Python", setup=Setup(), files={}, entry=entry)


def workload(**more: Any) -> Workload:
    """Make a workload of 0.3 seconds by our own tool."""
    fields: dict[str, Any] = {
        "name": "short",
        "tool": "bolide",
        "connections": 4,
        "duration_s": 0.3,
        "timeout_s": 1.0,
        "content": "OK",
    }
    return Workload(**(fields | more))


def study(*workloads: Workload, rounds: int = 1) -> Study:
    """Make a study of them."""
    return Study(
        name="tiny",
        title="A tiny study",
        document="",
        rounds=rounds,
        duration_s=0.3,
        workloads=workloads or (workload(),),
        published=(),
    )


def renamed(contestant: Contestant, name: str) -> Contestant:
    """Return the same contestant by another name."""
    entry = msgspec.structs.replace(contestant.entry, name=name)
    return msgspec.structs.replace(contestant, entry=entry)


def among(*ways: str) -> dict[str, Contestant]:
    """Return contestants that lie in these ways."""
    return {way: liar(way) for way in ways}


def options(folder: Path, **more: object) -> race.Options:
    """Make the options of a short race in a folder below this one."""
    fields = {"out": folder / "out", "server_cpus": (CPU,), "load_cpus": (CPU,), "is_quick": True}
    return race.Options(**(fields | more))  # type: ignore[arg-type]


def trials_of(folder: Path) -> list[Trial]:
    """Read the trials of such a race."""
    return [each for each in journal.read(folder / "out") if isinstance(each, Trial)]


class Silent:
    """A display that only records what it is given."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.names: list[str] = []
        self.starts: list[tuple[int, int]] = []
        self.at_end: Callable[[Trial], None] = lambda found: None

    def note(self, text: str) -> None:
        self.notes.append(text)

    def start(self, slots: Sequence[Slot], done: int) -> None:
        self.names = [slot.contestant.name for slot in slots]
        self.starts.append((len(slots), done))

    def running(self, slot: Slot) -> None:
        pass

    def ended(self, found: Trial) -> None:
        self.at_end(found)


def processes_with(text: str) -> list[int]:
    """Find the processes whose command line has a text, but not those of tests that run at once."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            if text in words and sys.executable in words and _is_ours(folder):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _is_ours(folder: Path) -> bool:
    """Return whether this process of the tests has started a process; all inherit its name."""
    name = os.environ.get("PYTEST_XDIST_WORKER")
    variables = (folder / "environ").read_bytes().split(b"\0")
    return name is None or f"PYTEST_XDIST_WORKER={name}".encode() in variables
