"""The types of an examination: the load, a verdict, a finding, and what a check can read.

`source.py` reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from bolide.doctor.source import Source, Unreadable

BACKLOG = 2048
"""The default backlog of `bolide serve`; a test compares the two."""


class Verdict(StrEnum):
    """The verdict on one row, the most urgent first."""

    LIMITS = "limits"
    ADVICE = "advice"
    UNKNOWN = "unknown"
    GONE = "gone"
    FINE = "fine"


class Role(StrEnum):
    """Which end of the connections this machine is."""

    ANY = "any"
    """Server to some machines and client to others: everything is judged."""
    SERVER = "server"
    CLIENT = "client"
    LOOPBACK = "loopback"
    """Server and client of the same connections."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load that the machine is judged for."""

    connections: int = 1000
    """Open at the same time, and opened at once."""
    new_per_second: int = 100
    backlog: int = BACKLOG
    """Backlog that the server passes to listen()."""
    role: Role = Role.ANY
    port: int | None = None
    """The port of a running server, which is examined too."""

    @property
    def is_server(self) -> bool:
        """Whether connections come in here."""
        return self.role is not Role.CLIENT

    @property
    def is_client(self) -> bool:
        """Whether connections go out from here."""
        return self.role is not Role.SERVER


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: a value, what to know about it, and whether it limits the load."""

    name: str
    group: str
    value: str | None
    """As it was read; None if it does not exist or cannot be read."""
    verdict: Verdict
    why: str
    """One sentence for the verdict; the reason if the value is unknown."""
    default: str | None = None
    does: str = ""
    advice: str = ""
    fix: str = ""
    """A command, or what else fixes it; empty if nothing needs to change."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, the sentence for it, and the fix."""

    verdict: Verdict
    why: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What a check can read: the machine, the load, and earlier counters of the machine."""

    source: Source
    load: Load
    kernel: tuple[int, ...]
    earlier: dict[str, str] = field(default_factory=dict)
    """Texts of files with counters at the start of the sample, by path."""

    def setting(self, name: str) -> list[int]:
        """Read the numbers of a kernel setting.

        Raises:
            Unreadable: the file cannot be read, or holds something else.
        """
        return numbers(self.source.text(setting_path(name)), name)

    def setting_or(self, name: str, default: int) -> int:
        """Read a kernel setting of one number; return the default if this kernel lacks it."""
        try:
            return self.setting(name)[0]
        except Unreadable as error:
            if error.is_absent:
                return default
            raise

    def sampled(self, path: str) -> tuple[str, str]:
        """Return the text of a file with counters at the start of the sample and now.

        Raises:
            Unreadable: it cannot be read.
        """
        now = self.source.text(path)
        return self.earlier.get(path, now), now


@dataclass(frozen=True, slots=True)
class Check:
    """Something to examine that is not a kernel setting."""

    name: str
    group: str
    does: str
    advice: str
    look: Callable[[Case], tuple[str, Judgement]]
    """Returns the value as text and the verdict; raises Unreadable if there is no value."""

    def examine(self, case: Case) -> Finding:
        """Examine it, and return a row."""
        value: str | None = None
        try:
            value, judgement = self.look(case)
        except Unreadable as error:
            judgement = Judgement(Verdict.UNKNOWN, f"{error}.")
        return Finding(
            name=self.name,
            group=self.group,
            value=value,
            verdict=judgement.verdict,
            why=judgement.why,
            does=self.does,
            advice=self.advice,
            fix=judgement.fix,
        )


def fine(why: str) -> Judgement:
    """Return the verdict that nothing needs to change."""
    return Judgement(Verdict.FINE, why)


SETTING_MAX = 2**31 - 1
"""Most settings are an int in the kernel."""


def power_of_two_above(least: int) -> int:
    """Round up to a number that is easy to recognise and that a setting can hold."""
    return min(1 << max(0, least - 1).bit_length(), SETTING_MAX)


def setting_path(name: str) -> str:
    """Return the path of a kernel setting's file, relative to the root."""
    return "proc/sys/" + name.replace(".", "/")


def numbers(text: str, what: str) -> list[int]:
    """Read numbers that are separated by white space.

    Raises:
        Unreadable: there are none, or something else is there.
    """
    try:
        found = [int(word) for word in text.split()]
    except ValueError:
        found = []
    if not found:
        raise Unreadable(f"{what} holds {text.strip()[:40]!r}, which is not a number")
    return found


def version(text: str) -> tuple[int, ...]:
    """Read the numbers at the start of a version: 6.18.44-arch1 is (6, 18, 44)."""
    match = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(map(int, match[0].split("."))) if match else ()
