"""Where `bolide load --fleet` generates its load: what `bolide.load.place` needs of a fleet."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bolide import quantity, streams
from bolide.config.address import Address
from bolide.errors import ConfigError, Error
from bolide.fleet import wire
from bolide.fleet.engine import FleetEngine
from bolide.fleet.exposure import host_of, is_loopback, is_scheduler
from bolide.fleet.link import Link
from bolide.fleet.order import refuse_few
from bolide.fleet.reply import expected, offsets
from bolide.fleet.seal import SealedLink, secret_in
from bolide.fleet.verdict import Member
from bolide.load import destination, local_server
from bolide.load import plan as plans
from bolide.load.destination import Destination
from bolide.load.options import Options
from bolide.load.place import Fleet as FleetOptions

AGENTS_MAX = 64
"""A race finds its agents with a request on each of so many connections."""
JOIN_S = 60.0
"""How long `--agents` waits for agents."""
POLL_S = 0.1
SECRET_FIELDS = {"authorization", "cookie", "proxy-authorization"}
_LOCAL = re.compile(r"local:([0-9]{1,3})")
_ELSEWHERE = {
    "proxy": "a proxy hides the target from the agents' limits; load it without a fleet",
    "source_addresses": "--source is an address of one machine; leave it out with --fleet",
    "cpus": "--cpus are processors of one machine; start agents with `taskset -c` instead",
    "certificate": "--cert has a key that is not sent to agents; leave it out with --fleet",
}


class Fleet:
    """Agents, and how load is generated on them."""

    def __init__(
        self,
        link: Link,
        count: int | None = None,
        without: Collection[str] = (),
        *,
        is_quiet: bool = False,
        is_readable: bool = False,
    ) -> None:
        """Find the agents: `count` of them, or all.

        `is_readable` says that others see messages, and `is_quiet` that nobody wants to know for
        whom this waits.

        Raises:
            ConfigError: there is none, or one has another version or another secret.
            Error: one does not respond, or too few have joined.
        """
        self._link = link
        self._is_readable = is_readable
        names = _joined(link, count, frozenset(without), is_quiet)
        hello = wire.encode(wire.Hello())
        replies = link.call(dict.fromkeys(names, hello))
        try:
            found = [expected(each, replies[key], wire.Description) for key, each in names.items()]
            known = zip(names, found, offsets(link, names), strict=True)
        except ConfigError:
            raise
        except Error as error:
            raise Error(f"{error}; end it, or leave it out with --without-agent NAME") from None
        self._members = [Member(*each) for each in known]
        self._engine: FleetEngine | None = None

    def find(self, options: Options) -> Destination:
        """Parse the URLs; the agents resolve their names.

        Raises:
            ConfigError: an option does not suit several machines.
        """
        return _destination(options)

    def make_engine(self, plan: dict[str, Any]) -> FleetEngine:
        """Return the engine for a run of the plan."""
        self._engine = FleetEngine(plan, self._link, self._members)
        return self._engine

    def close(self) -> None:
        """End a run of which there is no report, so that its agents are free for another one."""
        if self._engine is not None:
            self._engine.release()

    def shared_processors(self, plan: dict[str, Any]) -> list[int]:
        """Return the processors that agents take from a server, if they are on this machine."""
        own = [each for each in self._members if each.description.host == socket.gethostname()]
        address = _resolved(plan["address"]) if own else None
        if address is None:
            return []
        return local_server.shared_processors(address, (), plan["threads"] * len(own))

    def warnings(self, plan: dict[str, Any]) -> list[str]:
        """Return which secrets of a plan cross a network as they are."""
        if not self._is_readable:
            return []
        lines = [name.lower() for each in plan["requests"] for name, _ in each["field_lines"]]
        fields = sorted(set(lines) & SECRET_FIELDS)
        what = [f"the field {name}" for name in fields]
        if any(each["content"] for each in plan["requests"]):
            what.append("the content of requests")
        if not what:
            return []
        return [
            f"{' and '.join(what)} can be read in the network between this machine, the scheduler "
            "and the agents; use a tls:// scheduler for secrets"
        ]

    def lines(self, report: dict[str, Any]) -> list[str]:
        """Return a table of the agents of a run."""
        return table(report["fleet"])


def table(fleet: dict[str, Any]) -> list[str]:
    """Format a line for each agent, and how well they started together."""
    heads = ("agent", "requests/s", "responses", "failed", "CPU", "start")
    rows = [heads, *(_row(agent) for agent in fleet["agents"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        first, *others = (cell for cell in row)
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("   ".join([f"{first:{widths[0]}}", *cells]).rstrip())
    if fleet["start_skew_us"] is not None:
        between, uncertain = fleet["start_skew_us"], fleet["start_skew_uncertainty_us"]
        lines.append(
            f"starts at most {quantity.latency_text(between)} apart, as far as the clocks are "
            f"known (to {quantity.latency_text(uncertain)})"
        )
    return lines


def _row(agent: dict[str, Any]) -> tuple[str, ...]:
    name = agent["name"] if agent["host"] in agent["name"] else f"{agent['name']}@{agent['host']}"
    if agent["ok"] is None:
        return (name, "-", "-", "-", "-", "lost")
    late_us = agent["start_late_us"]
    return (
        name,
        f"{agent['requests_per_s']:,.1f}",
        f"{agent['ok']:,}",
        f"{agent['failed']:,}",
        f"{agent['generator_cpu']:.0%}",
        "-" if late_us is None else f"+{quantity.latency_text(late_us)}",
    )


def _destination(options: Options) -> Destination:
    for name, text in _ELSEWHERE.items():
        if getattr(options, name):
            raise ConfigError(text)
    if options.urls and options.urls[0].startswith("unix:"):
        raise ConfigError(f"{options.urls[0]!r} is on one machine; give a URL to a fleet")
    if options.pattern == "broadcast":
        raise ConfigError("--pattern broadcast needs one thread; leave out --fleet")
    return destination.find(options.urls, options.target, locate=_unresolved)


def _resolved(address: str) -> str | None:
    """Return the first address of HOST:PORT; None if there is none."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(Address(str(found[0][4][0]), int(port)))


def _unresolved(name: str, port: int, url: str) -> str:
    return str(Address(name, port))


def _joined(
    link: Link, count: int | None, without: frozenset[str], is_quiet: bool
) -> dict[str, str]:
    """Return the addresses and names of the agents, for `count` of which this waits.

    Raises:
        ConfigError: there is none, there are more, or too many for a fleet, or no agent has a name
            that is left out.
        Error: there are fewer.
    """
    end, shown = time.monotonic() + JOIN_S, -1
    while True:
        there = link.agents()
        names = {key: each for key, each in there.items() if each not in without}
        if shown < len(names) < (count or 0):
            shown = len(names)
            if not is_quiet:
                streams.say(f"waiting for agents: {shown} of {count} have joined")
        if count is None or len(names) >= count or time.monotonic() > end:
            break
        time.sleep(POLL_S)
    if unknown := without - set(there.values()):
        texts = ", ".join(sorted(unknown))
        raise ConfigError(f"--without-agent: no agent is called {texts}; there are {_list(there)}")
    if count is not None and len(names) > count:
        raise ConfigError(
            f"--agents: there are {len(names)} instead of {count}: {_list(names)}; leave some out "
            "with --without-agent NAME"
        )
    if count is not None and len(names) < count:
        raise Error(
            f"only {len(names)} of {count} agents have joined within {JOIN_S:.0f} s: {_list(names)}"
        )
    if not names:
        raise ConfigError("--fleet: there are no agents; start some with `bolide agent`")
    if len(names) > AGENTS_MAX:
        raise ConfigError(
            f"--fleet: there are {len(names)} agents, and a fleet has at most {AGENTS_MAX}; leave "
            "some out with --without-agent NAME"
        )
    return names


def _list(names: Mapping[str, str]) -> str:
    return ", ".join(names.values()) or "none"


@contextlib.contextmanager
def opened(fleet: FleetOptions, options: Options) -> Iterator[Fleet]:
    """Connect to the fleet that options name: `local:N`, or a scheduler's address.

    Raises:
        ConfigError: the option is neither, another one does not suit a fleet, there is no secret
            where one is needed, or Dask is not installed.
        Error: the scheduler, or an agent, cannot be reached.
    """
    _destination(options)  # before agents are started, or waited for
    local, where = _LOCAL.fullmatch(fleet.where), fleet.where
    if local is None and not is_scheduler(where):
        raise ConfigError(f"--fleet: {where!r} is not a fleet; give local:N or tcp://HOST:PORT")
    count = fleet.agents if local is None else int(local[1])
    if count is not None:
        _check_number(count, options)
    if local is not None:
        with _started(int(local[1]), fleet) as link:
            yield Fleet(link)
        return
    secret = secret_in(fleet.secret_file) if fleet.secret_file else None
    is_readable = where.startswith("tcp://") and not is_loopback(host_of(where))
    if secret is None and is_readable:
        raise ConfigError(
            f"--fleet: {where} is not on this machine, so its agents need a secret: give the "
            "--secret-file that they were started with, or use tls://"
        )
    from bolide.fleet.dask import DaskLink

    with contextlib.closing(DaskLink(where)) as link:
        carrier: Link = SealedLink(link, secret) if secret else link
        wanted = (fleet.agents, fleet.without)
        made = Fleet(carrier, *wanted, is_quiet=fleet.is_quiet, is_readable=is_readable)
        with contextlib.closing(made):
            yield made


def _check_number(count: int, options: Options) -> None:
    """Check how many agents are asked for, before they are started, or waited for.

    Raises:
        ConfigError: there cannot be so many, or not with these connections.
    """
    if not 0 < count <= AGENTS_MAX:
        raise ConfigError(f"--fleet: a fleet has 1 to {AGENTS_MAX} agents, not {count}")
    refuse_few(plans.connections(options), options.threads, count)


@contextlib.contextmanager
def _started(count: int, fleet: FleetOptions) -> Iterator[Link]:
    """Start agents on this machine.

    Raises:
        ConfigError: options are for agents that somebody else started.
        Error: one does not start.
    """
    if fleet.secret_file or fleet.agents or fleet.without:
        raise ConfigError(
            f"--fleet: {fleet.where} starts its agents itself; leave out --secret-file, --agents "
            "and --without-agent"
        )
    from bolide.fleet.local import started

    with started(count) as link:
        yield link
