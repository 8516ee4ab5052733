"""Parses another tool's command line according to the table of its options."""

from __future__ import annotations

import getopt
from collections.abc import Callable
from dataclasses import dataclass, field

from bolide import quantity
from bolide.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Syntax:
    """A tool's options.

    `short` and `long` are in `getopt`'s format, `names` maps long names to short ones, and
    `refused` maps the short names of unsupported options to the reason and the remedy.
    """

    tool: str
    short: str
    long: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def read(self, words: list[str]) -> Given:
        """Split words into options and the URL.

        Raises:
            ConfigError: an option is unknown or not supported, or there is not exactly one URL.
        """
        try:
            pairs, rest = getopt.gnu_getopt(words, self.short, list(self.long))
        except getopt.GetoptError as error:
            raise ConfigError(f"--like: {self.tool}: {error.msg}") from None
        given = [(self.names.get(name, name), name, value) for name, value in pairs]
        for short, written, _ in given:
            if short in self.refused:
                raise ConfigError(f"--like: {self.tool} {written}: {self.refused[short]}")
        if len(rest) != 1:
            found = " ".join(" ".join(rest).split()) or "none"
            raise ConfigError(f"--like: {self.tool} takes one URL, not {found}")
        return Given(self.tool, [(short, value) for short, _, value in given], rest[0])


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command line by short names, in order, and its URL."""

    tool: str
    pairs: list[tuple[str, str]]
    url: str

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return any(each == name for each, _ in self.pairs)

    def all(self, name: str) -> list[str]:
        """Return every value of an option."""
        return [value for each, value in self.pairs if each == name]

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of an option."""
        return (self.all(name) or [default])[-1]

    def count(self, name: str, default: int) -> int:
        """Return a whole number of at least 1.

        Raises:
            ConfigError: the value is not such a number.
        """
        found = self._parsed(name, quantity.count)
        if found is None:
            return default
        if found < 1:
            raise ConfigError(f"--like: {self.tool} {name}: {found:.0f} is below 1")
        return int(found)

    def seconds(self, name: str) -> float | None:
        """Return a duration above zero in seconds; None if it was not given.

        Raises:
            ConfigError: the value is not such a duration.
        """
        found = self._parsed(name, quantity.seconds)
        if found == 0:
            raise ConfigError(f"--like: {self.tool} {name}: {self.text(name)!r} is not a time")
        return found

    def _parsed(self, name: str, parse: Callable[[str], float]) -> float | None:
        text = self.text(name)
        if not self.has(name):
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise ConfigError(f"--like: {self.tool} {name}: {text!r} {error}") from None


def closes(headers: list[str]) -> tuple[list[str], bool]:
    """Return the headers other than Connection, and whether that contains `close`."""
    values = [line.partition(":") for line in headers]
    connection = [value for name, _, value in values if name.strip().lower() == "connection"]
    others = [
        line
        for line, parts in zip(headers, values, strict=True)
        if parts[0].strip().lower() != "connection"
    ]
    return others, any("close" in value.lower() for value in connection)
