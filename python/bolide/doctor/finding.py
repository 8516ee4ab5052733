"""The words of an examination: the load asked about, a verdict, a finding, what a check can see.

It reads nothing by itself; `source.py` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from bolide.doctor.source import Source, Unreadable

BACKLOG = 2048
"""What `bolide serve` asks for by default; a test holds the two together."""


class Verdict(StrEnum):
    """What an examination says of one row, the most urgent first."""

    BITES = "bites"
    ADVICE = "advice"
    UNKNOWN = "unknown"
    GONE = "gone"
    FINE = "fine"


class Role(StrEnum):
    """Which end of the connections this machine is."""

    ANY = "any"
    """Server to some and client to other machines: everything counts."""
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
    """What the server asks listen() for."""
    role: Role = Role.ANY
    port: int | None = None
    """The port of a running server, which is looked at too."""

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
    """One row: what is, what ought to be known of it, and whether it bites."""

    name: str
    group: str
    value: str | None
    """As it was read; None when it is not there or cannot be read."""
    verdict: Verdict
    why: str
    """One sentence for the verdict; the reason where the value is unknown."""
    default: str | None = None
    does: str = ""
    advice: str = ""
    mend: str = ""
    """A command, or what else changes it; only where something is to be changed."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, the sentence for it, and what changes it."""

    verdict: Verdict
    why: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What a check can look at: the machine, the load, and the machine a moment ago."""

    source: Source
    load: Load
    kernel: tuple[int, ...]
    earlier: dict[str, str] = field(default_factory=dict)
    """Texts of counting files at the beginning of the sample, by path."""

    def setting(self, name: str) -> list[int]:
        """Read the numbers of a kernel setting.

        Raises:
            Unreadable: the file cannot be read, or holds something else.
        """
        return numbers(self.source.text(setting_path(name)), name)

    def setting_or(self, name: str, default: int) -> int:
        """Read a kernel setting of one number; give the default where this kernel lacks it."""
        try:
            return self.setting(name)[0]
        except Unreadable as error:
            if error.is_absent:
                return default
            raise

    def sampled(self, path: str) -> tuple[str, str]:
        """Give a counting file's text at the beginning of the sample and now.

        Raises:
            Unreadable: it cannot be read.
        """
        now = self.source.text(path)
        return self.earlier.get(path, now), now


@dataclass(frozen=True, slots=True)
class Check:
    """Something to look at that is no kernel setting."""

    name: str
    group: str
    does: str
    advice: str
    look: Callable[[Case], tuple[str, Judgement]]
    """Gives the value for people and the verdict; raises Unreadable where there is none."""

    def examine(self, case: Case) -> Finding:
        """Look, and make a row of what is seen."""
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
            mend=judgement.mend,
        )


def fine(why: str) -> Judgement:
    """Say that nothing is to be done."""
    return Judgement(Verdict.FINE, why)


SETTING_MAX = 2**31 - 1
"""Most settings are an int of the kernel's."""


def power_of_two_above(least: int) -> int:
    """Round up, so that the advice is a number that people know again, and a setting can hold."""
    return min(1 << max(0, least - 1).bit_length(), SETTING_MAX)


def setting_path(name: str) -> str:
    """Give the path of a kernel setting's file, below the root."""
    return "proc/sys/" + name.replace(".", "/")


def numbers(text: str, what: str) -> list[int]:
    """Read numbers between white space.

    Raises:
        Unreadable: there are none, or something else is there.
    """
    try:
        found = [int(word) for word in text.split()]
    except ValueError:
        found = []
    if not found:
        raise Unreadable(f"{what} holds {text.strip()[:40]!r}, which is no number")
    return found


def version(text: str) -> tuple[int, ...]:
    """Read the numbers at the beginning of a version: 6.18.44-arch1 is (6, 18, 44)."""
    match = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(map(int, match[0].split("."))) if match else ()
