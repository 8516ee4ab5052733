"""The profiles of `profile.toml`, and what each would change on a machine."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from bolide.doctor.finding import numbers, setting_path
from bolide.doctor.source import Source, Unreadable


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting of a profile."""

    name: str
    value: str
    how: Literal["at least", "widest", "exactly"]

    def applied_to(self, old: str) -> str:
        """Return the value to write instead of an old one.

        Raises:
            Unreadable: the old value has another form.
        """
        if self.how == "exactly":
            return self.value
        had, wanted = numbers(old, self.name), numbers(self.value, self.name)
        if len(had) != len(wanted):
            raise Unreadable(f"{self.name} holds {old!r}")
        if self.how == "at least":
            return str(max(had[0], wanted[0]))
        return f"{min(had[0], wanted[0])} {max(had[1], wanted[1])}"


@dataclass(frozen=True, slots=True)
class Change:
    """A setting to write, with its old and new value."""

    name: str
    old: str
    new: str


@cache
def profiles() -> dict[str, list[Target]]:
    """Read the profiles."""
    text = resources.files(__package__).joinpath("profile.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, list[Target]])


def read(source: Source, name: str) -> str:
    """Read a setting in the form that is compared: words separated by one space.

    Raises:
        Unreadable: it cannot be read.
    """
    return " ".join(source.text(setting_path(name)).split())


def plan(source: Source, profile: str) -> tuple[list[Change], list[str]]:
    """Return the changes of a profile, and why some of its settings are left out."""
    changes, left_out = [], []
    for target in profiles()[profile]:
        try:
            old = read(source, target.name)
            new = target.applied_to(old)
        except Unreadable as error:
            left_out.append(f"{target.name} is left out: {error}")
            continue
        if new != old:
            changes.append(Change(target.name, old, new))
    return changes, left_out
