"""Fetches what the agents of a run have counted, in pieces, and describes each of them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bolide import _core
from bolide.errors import ConfigError, Error
from bolide.fleet import wire
from bolide.fleet.job import KEPT_S
from bolide.fleet.link import FETCH_S, REPLY_S, Link
from bolide.fleet.reply import expected
from bolide.fleet.verdict import Member

END_S = 10.0
"""How long a load that was asked to end may take for it."""
AGAIN_S = 0.2
"""How long to wait before an agent that did not respond is asked again."""
SILENT_S_MAX = KEPT_S
"""An agent that was silent for this time has no result any more."""
RESULT_CHARS_MAX = 256 << 20
"""More than the counts of the longest run have, of which this is 6 KiB for each second."""
FIGURES = (
    "requests_per_s",
    "ok",
    "failed",
    "unfinished",
    "offered_per_s",
    "achieved_share",
    "generator_cpu",
    "generator_runnable",
    "generator_waited",
    "connections_max",
    "start_late_us",
)


def fetched(link: Link, run: str, members: Sequence[Member]) -> list[str]:
    """Fetch the records of a run, also of agents that were lost only because they were silent.

    Each is kept by its agent until it is freed, so whatever goes wrong is repeated. What cannot be
    fetched makes its agent lost.
    """
    there = [each for each in members if not each.lost]
    silent = [each for each in members if each.lost and not each.has_refused]
    found: list[str] = []
    with contextlib.suppress(KeyboardInterrupt):  # what there is can be reported
        replies = _call(link, {each.address: wire.Stop(run=run) for each in silent}, REPLY_S)
        _fetch_all(link, run, there, FETCH_S, found)
        if found:  # otherwise it is worth to wait for the others
            silent = [each for each in silent if isinstance(replies[each.address], bytes)]
        _fetch_all(link, run, silent, REPLY_S, found)
    for member in there:
        if member.report is None and not member.lost:
            member.lost = "its result was not waited for"
    return found


@dataclass(slots=True)
class _Fetch:
    """What has come from an agent so far."""

    member: Member
    end_s: float
    text: str = ""

    def is_to_repeat(self, octets: bytes | Exception) -> bool:
        """Return whether an agent that did not respond may still have its result."""
        return _is_silent(octets) and time.monotonic() - self.member.heard_s < SILENT_S_MAX

    def take(self, octets: bytes | Exception) -> bool:
        """Add a piece; return whether it is the last one.

        Raises:
            Error: there is no result.
        """
        part = expected(self.member.name, octets, wire.Part)
        self.member.heard_s = time.monotonic()
        if not part.has_ended:
            if self.member.heard_s > self.end_s:
                raise Error("its load did not end")
            return False
        self.text += part.piece
        if len(self.text) > RESULT_CHARS_MAX:
            raise Error(f"its result has more than {RESULT_CHARS_MAX:,} characters")
        if part.piece and len(self.text) < part.total:
            return False
        self.member.report = _report(self.text)
        self.member.ended, self.member.target = part.ended, part.target
        return True

    def fail(self, error: Error) -> None:
        """Note why there is no result."""
        text = str(error).removeprefix(f"agent {self.member.name}: ")
        self.member.lost = self.member.lost or text
        self.text = ""


def _fetch_all(
    link: Link, run: str, members: Sequence[Member], timeout_s: float, found: list[str]
) -> None:
    """Fetch the records of some agents, each of which is added to what was found."""
    end_s = time.monotonic() + END_S
    all_ = [_Fetch(each, end_s) for each in members]
    left = {each.member.address: each for each in all_}
    while left:
        before = (len(left), sum(len(each.text) for each in all_))
        _fetch_once(link, run, left, timeout_s, found)
        if before == (len(left), sum(len(each.text) for each in all_)):
            time.sleep(AGAIN_S)


def _fetch_once(
    link: Link, run: str, left: dict[str, _Fetch], timeout_s: float, found: list[str]
) -> None:
    """Ask each agent once; remove those of which all has come, or nothing will come."""
    asked = {key: wire.Fetch(run=run, offset=len(each.text)) for key, each in left.items()}
    replies = _call(link, asked, timeout_s)
    silent: dict[str, bytes | Exception] = {}
    for address, octets in replies.items():
        fetch = left[address]
        if fetch.is_to_repeat(octets):
            silent[address] = octets
            continue
        try:
            if fetch.take(octets):
                found.append(fetch.text)
                del left[address]
        except Error as error:
            fetch.fail(error)
            del left[address]
    if silent:
        time.sleep(AGAIN_S)  # that an agent has left is known a moment later
        there = _there(link, silent)
        for address in silent.keys() - there:
            left.pop(address).fail(Error(str(silent[address])))


def _there(link: Link, asked: Iterable[str]) -> set[str]:
    """Return the addresses of the agents that have not left; all that were asked if unknown."""
    try:
        return set(link.agents())
    except Error:
        return set(asked)


def _is_silent(octets: bytes | Exception) -> bool:
    """Return whether there is no reply, but may be one to the same question later."""
    return isinstance(octets, Exception) and not isinstance(octets, ConfigError)


def _call(
    link: Link, questions: Mapping[str, wire.Question], timeout_s: float
) -> dict[str, bytes | Exception]:
    """Ask agents; a link that is gone is agents that do not respond."""
    try:
        return link.call({key: wire.encode(each) for key, each in questions.items()}, timeout_s)
    except Error as error:
        return {address: error for address in questions}


def _report(record: str) -> dict[str, Any]:
    """Make the report of one agent.

    Raises:
        Error: it is no record, or contradicts itself.
    """
    try:
        report: dict[str, Any] = json.loads(_core.merged_report([record]))
    except ValueError as error:
        raise Error(f"its result is malformed: {error}") from None
    latencies = sum(count for _, count in report["histogram"])
    if not _may_have(report, latencies):
        raise Error(
            f"its result contradicts itself: {report['ok']:,} correct responses with "
            f"{latencies:,} latencies"
        )
    return report


def _may_have(report: dict[str, Any], latencies: int) -> bool:
    """Return whether a report may have so many latencies: one for each correct response.

    Those of responses that unexpected bytes have made wrong later are kept, and those that arrived
    after the measured time may be missing if the load was stopped then.
    """
    ok, unexpected = report["ok"], report["errors"]["unexpected_bytes"]
    missing = report["drained"] or 0 if report["was_stopped"] else 0
    return bool(ok - missing <= latencies <= ok + unexpected)


def as_data(member: Member) -> dict[str, Any]:
    """Describe an agent and what it did, for JSON."""
    description, order = member.description, member.order
    return {
        "name": member.name,
        "host": description.host,
        "processors": description.processors,
        "processor": description.processor,
        "kernel": description.kernel,
        "memory_bytes": description.memory_bytes,
        "python": description.python,
        "is_release_build": description.is_release_build,
        "threads": order and order.threads,
        "connections": order and order.own_connections,
        "target": member.target or None,
        "clock_uncertainty_us": member.offset.uncertainty_ns / 1e3,
        "lost": member.lost or None,
        **{key: member.report and member.report.get(key) for key in FIGURES},
    }
