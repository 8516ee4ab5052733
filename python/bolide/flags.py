"""Values of flags, which have the same form and the same metavar in every command.

Times are read as `10`, `500ms`, `30s` or `2m`, counts as `100`, `10k` or `2M`, percentages as `2%`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from bolide import quantity
from bolide.errors import ConfigError

PORT_MAX = 65_535


class Number(click.ParamType):  # type: ignore[type-arg]
    """A number with a unit, from `least` to `most`; other than zero if `least` is not given."""

    def __init__(
        self,
        metavar: str,
        parse: Callable[[str], float],
        *,
        least: float | None = None,
        most: float = float("inf"),
    ) -> None:
        self.name = metavar
        self._parse = parse
        self._least = least
        self._most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a text; a default is a number already.

        Raises:
            BadParameter: it is not such a number.
        """
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            found = self._parse(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)
        if self._least is None and not found:
            self.fail(f"{value!r} is zero; leave the option out", param, ctx)
        if found < (self._least or 0):
            self.fail(f"{value!r} is less than {self._least:,}", param, ctx)
        if found > self._most:
            self.fail(f"{value!r} is more than {self._most:,}", param, ctx)
        return found


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names, separated by commas or spaces, as a tuple."""

    name = "NAME,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split a text; a default is a tuple already."""
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


class Folder(click.Path):
    """The path of a folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)
        self.name = "DIR"


TIME = Number("TIME", quantity.seconds)
PERCENT = Number("PERCENT", quantity.share)
"""Becomes a share: 0.02 for 2%."""
PORT = Number("N", quantity.count, most=PORT_MAX)
NAMES = Names()
FOLDER = Folder()


def count(least: int | None = None, most: float = float("inf")) -> Number:
    """Return the type of a whole number; without `least`, of one above 0."""
    return Number("N", quantity.count, least=least, most=most)


def refuse_without_fleet(where: str | None, others: Mapping[str, object]) -> None:
    """Refuse options that are for a fleet, by their flags, if none is named.

    Raises:
        ConfigError: one is given.
    """
    for flag, value in others.items():
        if where is None and value:
            raise ConfigError(f"{flag} is for a fleet; give --fleet too")


def fleet_options() -> tuple[click.Option, ...]:
    """Declare the options that name the agents of a fleet (docs/fleet.md)."""
    return (
        click.Option(
            ["--fleet"],
            metavar="FLEET",
            help="Several machines: tcp://HOST:PORT of their scheduler, or local:N"
            " (docs/fleet.md).",
        ),
        click.Option(
            ["--secret-file"],
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="File with the secret of the fleet's agents.",
        ),
        click.Option(
            ["--agents"],
            type=count(),
            help="Number of agents, for which it waits a minute. [all that there are]",
        ),
        click.Option(
            ["--without-agent", "without_agents"],
            metavar="NAME",
            multiple=True,
            help="Agent that takes no part; repeatable.",
        ),
    )
