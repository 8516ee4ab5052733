"""A run of a fleet, with the interface of the generator on one machine (`bolide.load.run.Engine`).

Every agent opens its connections first. When all are ready, each gets the same moment in the time
of its own clock, at which it starts.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bolide import _core
from bolide.errors import ConfigError, Error
from bolide.fleet import clock, wire
from bolide.fleet.clock import Offset, Sample
from bolide.fleet.link import PREPARE_S, REPLY_S, Link
from bolide.fleet.order import orders
from bolide.fleet.verdict import Member, reasons, skew

Plan = dict[str, Any]
Kind = TypeVar("Kind", bound=wire.Reply)

SAMPLES = 8
"""Readings of each clock before a run, and after it."""
OPENING_S = 10.0
"""How long connections may take to open; the generator itself goes on after 3 s."""
LEAD_S = 0.25
"""The start is at least this time away when the agents are notified."""
LEAD_ROUND_TRIPS = 4
POLL_S = 0.1


class FleetEngine:
    """One run on all agents."""

    def __init__(self, plan: Plan, link: Link, known: Sequence[Member]) -> None:
        self._link = link
        self._run = secrets.token_hex(8)
        self.members = [Member(each.address, each.description, each.offset) for each in known]
        self._orders: dict[str, wire.Order] = {}
        for member, order in zip(self.members, orders(plan, len(self.members)), strict=True):
            member.order = self._orders[member.address] = order
        self._snapshots: list[str] = []
        self._is_done = False
        self._was_stopped = False

    def start(self) -> None:
        """Open the connections on all agents, and start the load everywhere at the same time.

        Raises:
            ConfigError: an agent refuses.
            Error: an agent does not respond, or its connections do not open in time.
        """
        try:
            for member, found in zip(self.members, self._offsets(), strict=True):
                member.offset = found
            self._ask_all(self._prepare, wire.State, PREPARE_S)
            self._await_ready()
            longest_ns = 2 * max(each.offset.uncertainty_ns for each in self.members)
            lead_ns = max(int(LEAD_S * 1e9), LEAD_ROUND_TRIPS * longest_ns)
            at_ns = clock.now_ns() + lead_ns
            self._ask_all(
                lambda each: wire.Begin(run=self._run, at_ns=each.offset.theirs_ns(at_ns)),
                wire.State,
            )
        except BaseException:
            self._abort()
            raise

    def wait(self, timeout_s: float) -> bool:
        """Wait; return whether the run has ended on every agent that is not lost.

        Raises:
            Error: no agent is left, or none can be reached.
        """
        end = time.monotonic() + timeout_s
        while True:
            if self._is_done or self._look():
                self._is_done = True
                return True
            left_s = end - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(POLL_S, left_s))

    def stop(self) -> None:
        """End the run early."""
        if not self._is_done:
            self._was_stopped = True
            self._call(lambda each: wire.Stop(run=self._run))

    def progress(self) -> str:
        """Return the progress of the fleet since the last call, as JSON."""
        states = self._call(lambda each: wire.Look(run=self._run, counts=True))
        found = [each.snapshot for each in states if isinstance(each, wire.State)]
        self._snapshots = [each for each in found if each is not None] or self._snapshots
        if not self._snapshots:
            raise Error(self._all_lost())
        return _core.merged_progress(self._snapshots)

    def report(self) -> str:
        """Return the report of the fleet, as JSON, with its agents and whether it is valid.

        Raises:
            Error: there is no result of any agent.
        """
        records = []
        for member, result in zip(self.members, self._fetch(), strict=True):
            if result is not None:
                member.report = json.loads(_core.merged_report([result.record]))
                member.was_cut = result.was_cut
                records.append(result.record)
        if not records:
            raise Error(self._all_lost())
        self._measure_again()
        report = json.loads(_core.merged_report(records))
        invalid = reasons(self.members, was_interrupted=self._was_stopped)
        return json.dumps(report | {"invalid": invalid, "fleet": self._as_data()})

    def _prepare(self, member: Member) -> wire.Prepare:
        return wire.Prepare(run=self._run, order=self._orders[member.address])

    def _await_ready(self) -> None:
        end = time.monotonic() + OPENING_S
        while True:
            states = self._ask_all(lambda each: wire.Look(run=self._run), wire.State)
            for member, state in zip(self.members, states, strict=True):
                if state.phase == "failed":
                    raise ConfigError(f"agent {member.name}: {state.reason}")
            if all(state.phase in ("ready", "done") for state in states):
                return
            if time.monotonic() > end:
                raise Error(f"the fleet's connections did not open within {OPENING_S:.0f} s")
            time.sleep(POLL_S / 2)

    def _look(self) -> bool:
        """Ask for the states; return whether nothing runs any more.

        If an agent is lost, the others stop: a part of a fleet is no measurement.
        """
        before = sum(bool(each.lost) for each in self.members)
        states = self._call(lambda each: wire.Look(run=self._run))
        for member, state in zip(self.members, states, strict=True):
            if isinstance(state, wire.State) and state.phase == "failed":
                member.lost = state.reason
        lost = sum(bool(each.lost) for each in self.members)
        if lost == len(self.members):
            raise Error(self._all_lost())
        if lost > before:
            self._call(lambda each: wire.Stop(run=self._run))
        running = (each for each in states if isinstance(each, wire.State))
        return all(each.phase in ("done", "failed") for each in running)

    def _fetch(self) -> list[wire.Result | None]:
        results = self._call(lambda each: wire.Fetch(run=self._run))
        return [each if isinstance(each, wire.Result) else None for each in results]

    def _measure_again(self) -> None:
        try:
            for member, found in zip(self.members, self._offsets(), strict=True):
                member.offset_after = found
        except Error:
            return  # of a lost agent, which is reported

    def _offsets(self) -> list[Offset]:
        return offsets(self._link, [each.address for each in self.members])

    def _ask_all(
        self,
        question: Callable[[Member], wire.Question],
        kind: type[Kind],
        timeout_s: float = REPLY_S,
    ) -> list[Kind]:
        """Ask every agent before the load starts, when all have to respond.

        Raises:
            ConfigError: an agent refuses.
            Error: an agent does not respond.
        """
        messages = {each.address: wire.encode(question(each)) for each in self.members}
        replies = self._link.call(messages, timeout_s)
        return [expected(each.name, replies[each.address], kind) for each in self.members]

    def _call(self, question: Callable[[Member], wire.Question]) -> list[wire.Reply | None]:
        """Ask every agent that is not lost; one that does not respond, or refuses, is lost."""
        asked = [each for each in self.members if not each.lost]
        replies = self._link.call({each.address: wire.encode(question(each)) for each in asked})
        found: list[wire.Reply | None] = []
        for member in self.members:
            octets = replies.get(member.address)
            if octets is None:
                found.append(None)
                continue
            try:
                found.append(expected(member.name, octets, wire.Reply))  # type: ignore[arg-type]
            except Error as error:
                member.lost = str(error).removeprefix(f"agent {member.name}: ")
                found.append(None)
        return found

    def _abort(self) -> None:
        """End what has started already, without waiting for the result."""
        forget = wire.encode(wire.Forget(run=self._run))
        try:
            self._link.call({each.address: forget for each in self.members})
        except Error:
            return

    def _all_lost(self) -> str:
        texts = dict.fromkeys(each.lost for each in self.members if each.lost)
        return f"all agents were lost, so there is no result: {'; '.join(texts) or 'no reason'}"

    def _as_data(self) -> dict[str, Any]:
        found = skew(self.members)
        return {
            "start_skew_us": found and found.between_ns / 1e3,
            "start_skew_uncertainty_us": found and found.uncertainty_ns / 1e3,
            "agents": [_data_of(each) for each in self.members],
        }


def _data_of(member: Member) -> dict[str, Any]:
    description, order = member.description, member.order
    keys = (
        "requests_per_s",
        "ok",
        "failed",
        "unfinished",
        "offered_per_s",
        "achieved_share",
        "generator_cpu",
        "generator_runnable",
        "connections_max",
        "start_late_us",
    )
    return {
        "name": member.name,
        "host": description.host,
        "processors": description.processors,
        "processor": description.processor,
        "kernel": description.kernel,
        "python": description.python,
        "threads": order and order.threads,
        "connections": order and order.own_connections,
        "clock_uncertainty_us": member.offset.uncertainty_ns / 1e3,
        "lost": member.lost or None,
        **{key: member.report and member.report[key] for key in keys},
    }


def offsets(link: Link, addresses: Sequence[str]) -> list[Offset]:
    """Measure how far the clocks of agents are from ours.

    Raises:
        Error: an agent does not respond.
    """
    samples: dict[str, list[Sample]] = {address: [] for address in addresses}
    octets = wire.encode(wire.Clock())
    for _ in range(SAMPLES):
        for address in addresses:
            before_ns = clock.now_ns()
            reply = link.call({address: octets})[address]
            after_ns = clock.now_ns()
            theirs = expected(address, reply, wire.Time)
            samples[address].append(Sample(before_ns, theirs.now_ns, after_ns))
    return [clock.offset(samples[address]) for address in addresses]


def expected(name: str, octets: bytes | Exception, kind: type[Kind]) -> Kind:
    """Read a reply of the agent with this name.

    Raises:
        ConfigError: it refuses.
        Error: it does not respond, or with something else.
    """
    if isinstance(octets, Exception):
        raise Error(f"agent {name}: {octets}")
    try:
        found = wire.reply(octets)
    except wire.VersionError as error:
        raise ConfigError(f"agent {name} has {error}") from None
    if isinstance(found, wire.Refusal):
        raise ConfigError(f"agent {name}: {found.reason}")
    if not isinstance(found, kind):
        raise Error(f"agent {name} sent {type(found).__name__} instead of {kind}")
    return found
