"""A run of a fleet, with the interface of the generator on one machine (`bolide.load.run.Engine`).

Every agent opens its connections first. When all are ready, each gets the same moment in the time
of its own clock, at which it starts. An agent that is silent is asked again for as long as it keeps
its load; then it is lost, and the others stop. `result.py` fetches what was counted.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from bolide import _core
from bolide.errors import ConfigError, Error
from bolide.fleet import clock, result, wire
from bolide.fleet.job import ABANDONED_S
from bolide.fleet.link import PREPARE_S, REPLY_S, Link
from bolide.fleet.order import orders
from bolide.fleet.reply import Kind, expected, offset_of, offsets
from bolide.fleet.verdict import Member, reasons, skew

Plan = dict[str, Any]

OPENING_S = 40.0
"""How long an agent may take to resolve the target, start, and open its connections; the generator
itself goes on 3 s after its start."""
LEAD_S = 0.25
"""The start is at least this time away when the agents are notified."""
LEAD_ROUND_TRIPS = 4
POLL_S = 0.1
SILENT_S_MAX = ABANDONED_S
"""After this time the agent has ended the load, because it did not hear the coordinator."""
RELEASE_S = 2.0
RELEASES = 2
"""How often an agent is asked to free a run; otherwise it is busy for 10 s."""

NO_INTERVAL = {
    "interval_requests_per_s": 0.0,
    "interval_ns": {"counts": [], "total": 0, "min": (1 << 64) - 1, "max": 0, "sum": 0},
}
"""What a snapshot has in which nothing was counted since the one before."""


class FleetEngine:
    """One run on all agents."""

    def __init__(self, plan: Plan, link: Link, known: Sequence[Member]) -> None:
        self._link = link
        self._run = secrets.token_hex(8)
        self.members = [Member(each.address, each.description, each.offset) for each in known]
        self._orders: dict[str, wire.Order] = {}
        for member, order in zip(self.members, orders(plan, len(self.members)), strict=True):
            member.order = self._orders[member.address] = order
        self._snapshots: dict[str, str] = {}
        self._is_done = False
        self._is_ending = False
        self._was_stopped = False
        self._is_released = True

    def start(self) -> None:
        """Open the connections on all agents, and start the load everywhere at the same time.

        Raises:
            ConfigError: an agent refuses.
            Error: an agent does not respond, or its connections do not open in time.
        """
        names = {each.address: each.name for each in self.members}
        self._is_released = False
        try:
            for member, found in zip(self.members, offsets(self._link, names), strict=True):
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
            self.release()
            raise
        now_s = time.monotonic()
        for member in self.members:
            member.heard_s = now_s

    def wait(self, timeout_s: float) -> bool:
        """Wait; return whether the run has ended on every agent that is not lost.

        Raises:
            Error: none can be reached any more.
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
            self._is_ending = self._was_stopped = True
            self._look()

    def progress(self) -> str:
        """Return the progress of the fleet since the last call, as JSON.

        Raises:
            Error: no agent says what it has counted.
        """
        states = self._call(lambda each: wire.Look(run=self._run, counts=True))
        self._note_snapshots(states)
        if not self._snapshots:
            raise Error("no agent says what it has counted")
        return _core.merged_progress(list(self._snapshots.values()))

    def report(self) -> str:
        """Return the report of the fleet, as JSON, with its agents and whether it is valid.

        Raises:
            Error: there is no result of any agent.
        """
        try:
            records = result.fetched(self._link, self._run, self.members)
            if not records:
                raise Error(self._all_lost())
            self._measure_again()
        finally:
            self.release()
        report = json.loads(_core.merged_report(records))
        found = reasons(self.members, was_interrupted=self._was_stopped)
        invalid = {
            "invalid": [each.text for each in found],
            "invalid_kinds": list(dict.fromkeys(each.kind for each in found)),
        }
        return json.dumps(report | invalid | {"fleet": self._as_data()})

    def release(self) -> None:
        """End what there is on the agents, and free their results, where they can be reached."""
        if self._is_released:
            return
        forget = wire.encode(wire.Forget(run=self._run))
        left = {each.address: forget for each in self.members}
        for _ in range(RELEASES):
            with contextlib.suppress(Error):
                replies = self._link.call(left, RELEASE_S)
                left = {key: forget for key, each in replies.items() if isinstance(each, Exception)}
        self._is_released = True

    def _prepare(self, member: Member) -> wire.Prepare:
        return wire.Prepare(run=self._run, order=self._orders[member.address])

    def _await_ready(self) -> None:
        """Wait for all, while those that are ready hear that the coordinator is there."""
        end = time.monotonic() + OPENING_S
        while True:
            states = self._ask_all(lambda each: wire.Look(run=self._run, counts=True), wire.State)
            phases = dict(zip((each.name for each in self.members), states, strict=True))
            for name, state in phases.items():
                if state.phase == "failed":
                    raise Error(f"agent {name}: {state.reason}")
            late = [name for name, each in phases.items() if each.phase not in ("ready", "done")]
            if not late:
                self._note_snapshots(states)
                for member in self.members:
                    if member.lost:
                        raise Error(f"agent {member.name}: {member.lost}")
                return
            if time.monotonic() > end:
                names = ", ".join(late)
                raise Error(f"the connections of {names} did not open within {OPENING_S:.0f} s")
            time.sleep(POLL_S / 2)

    def _look(self) -> bool:
        """Ask for the states; return whether nothing runs any more.

        If an agent is lost, also if `progress` noticed it, the others stop: a part of a fleet is no
        measurement. They are asked to until they have stopped, as one message may be lost.
        """
        self._is_ending |= any(each.lost for each in self.members)
        look, stop = wire.Look(run=self._run), wire.Stop(run=self._run)
        states = self._call(lambda each: stop if self._is_ending else look)
        there = [each for each in self.members if not each.lost]
        if not self._is_ending and len(there) < len(self.members):
            return self._look()
        phases = (each.phase if isinstance(each, wire.State) else "silent" for each in states)
        lost = (bool(each.lost) for each in self.members)
        return all(one or other == "done" for one, other in zip(lost, phases, strict=True))

    def _note_snapshots(self, states: Sequence[wire.Reply | None]) -> None:
        """Keep what agents counted; one whose counts cannot be read is lost.

        Of one that does not say it, the total is kept, and the last interval is not shown again.
        """
        for address, kept in self._snapshots.items():
            self._snapshots[address] = json.dumps(json.loads(kept) | NO_INTERVAL)
        for member, state in zip(self.members, states, strict=True):
            if not isinstance(state, wire.State) or state.snapshot is None:
                continue
            try:
                _core.merged_progress([state.snapshot])
                self._snapshots[member.address] = state.snapshot
            except ValueError as error:
                member.lost = f"its progress is malformed: {error}"

    def _measure_again(self) -> None:
        """Read the clocks of those that are there once more, unless that is interrupted."""
        left = [each for each in self.members if not each.lost]
        try:
            while left:
                self._measure_one_again(left[0])
                del left[0]
        except KeyboardInterrupt:  # what there is can be reported
            for member in left:
                member.unchecked = "it was not waited for"

    def _measure_one_again(self, member: Member) -> None:
        try:
            member.offset_after = offset_of(self._link, member.address, member.name)
        except Error as error:
            member.unchecked = str(error).removeprefix(f"agent {member.name}: ")

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
        """Ask every agent that is not lost.

        One that refuses, fails, or has left is lost at once, one that is silent after some time.
        """
        asked = [each for each in self.members if not each.lost]
        replies = self._link.call({each.address: wire.encode(question(each)) for each in asked})
        found: dict[str, wire.Reply] = {}
        silent: dict[str, str] = {}
        for member in asked:
            octets = replies[member.address]
            if isinstance(octets, Exception) and not isinstance(octets, ConfigError):
                silent[member.address] = str(octets)
                continue
            member.heard_s = time.monotonic()
            try:
                reply = expected(member.name, octets, wire.State)
                if reply.phase == "failed":
                    raise Error(reply.reason)
                found[member.address] = reply
            except Error as error:
                member.has_refused = True
                member.lost = str(error).removeprefix(f"agent {member.name}: ")
        if silent:
            self._judge_silence(silent)
        return [found.get(each.address) for each in self.members]

    def _judge_silence(self, silent: dict[str, str]) -> None:
        """Decide which agents of those without a reply, and why, are lost."""
        try:
            there = self._link.agents()
        except Error:  # as silent as they are; a scheduler that has ended shows in the next call
            there = silent
        for member in self.members:
            why = silent.get(member.address)
            if why is None:
                continue
            silent_s = time.monotonic() - member.heard_s
            if member.address not in there:
                member.has_refused = True
                member.lost = why
            elif silent_s > SILENT_S_MAX:
                member.lost = f"it was silent for {silent_s:.0f} s ({why})"

    def _all_lost(self) -> str:
        lost = (f"agent {each.name}: {each.lost}" for each in self.members if each.lost)
        return f"all agents were lost, so there is no result: {'; '.join(lost) or 'no reason'}"

    def _as_data(self) -> dict[str, Any]:
        found = skew(self.members)
        return {
            "start_skew_us": found and found.between_ns / 1e3,
            "start_skew_uncertainty_us": found and found.uncertainty_ns / 1e3,
            "agents": [result.as_data(each) for each in self.members],
        }
