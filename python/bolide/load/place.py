"""Where the generator runs: in this process, or on the agents of a fleet.

This is all that `bolide load` knows of fleets. `bolide.fleet` is imported only for `--fleet`, by
name, because it imports this package.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bolide import _core
from bolide.load import destination, local_server
from bolide.load.destination import Destination
from bolide.load.options import Options
from bolide.load.plan import Plan
from bolide.load.run import Engine

FLEET = "bolide.fleet.place"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The agents that the options of a command name."""

    where: str
    """`local:N`, or the address of a scheduler."""
    secret_file: Path | None = None
    agents: int | None = None
    """How many there have to be; None: all that there are."""
    without: tuple[str, ...] = ()
    """Names of agents that take no part."""
    is_quiet: bool = False
    """Not to show for which agents a load waits."""


class Place(Protocol):
    """Where load is generated."""

    def find(self, options: Options) -> Destination:
        """Parse the URLs.

        Raises:
            ConfigError: one is malformed, or does not suit the place.
            Error: no server listens there.
        """

    def make_engine(self, plan: Plan) -> Engine:
        """Return the engine for one run of a plan.

        Raises:
            ValueError: the plan contradicts itself.
        """

    def shared_processors(self, plan: Plan) -> list[int]:
        """Return the processors that the load takes from a server on the same machine."""

    def warnings(self, plan: Plan) -> list[str]:
        """Return what a user should know before the load starts."""

    def lines(self, report: dict[str, Any]) -> list[str]:
        """Return what a page says about the place; nothing if there is one machine."""


class Here:
    """This process."""

    def find(self, options: Options) -> Destination:
        """Parse the URLs, and find the address at which the server listens."""
        return destination.find(options.urls, options.target, options.proxy)

    def make_engine(self, plan: Plan) -> Engine:
        """Return the engine for one run of a plan."""
        return _core.Load(plan)

    def shared_processors(self, plan: Plan) -> list[int]:
        """Return the processors that the load takes from a server on this machine."""
        address, cpus = plan["address"], plan["cpus"]
        return local_server.shared_processors(address, cpus, plan["threads"])

    def warnings(self, plan: Plan) -> list[str]:
        """Return nothing."""
        return []

    def lines(self, report: dict[str, Any]) -> list[str]:
        """Return nothing."""
        return []


def opened(fleet: Fleet | None, options: Options) -> contextlib.AbstractContextManager[Place]:
    """Return this process, or the fleet that options name, for as long as the block lasts.

    Raises:
        ConfigError: there is no such fleet, an option does not suit one, or what it needs is not
            installed.
        Error: the fleet cannot be reached.
    """
    if fleet is None:
        return contextlib.nullcontext(Here())
    place: contextlib.AbstractContextManager[Place]
    place = importlib.import_module(FLEET).opened(fleet, options)
    return place
