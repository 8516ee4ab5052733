"""The messages between the coordinator and the agents: JSON, and nothing that can be executed.

Each message is in an envelope with the schema's version and that of Bolide. Both sides refuse
another one, so the messages may change with every version; the envelope never does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bolide import _core
from bolide.errors import Error

SCHEMA = 3
PIECE_CHARS = 1 << 18
"""A result is fetched in pieces: it has every second of a run with its histogram."""


class VersionError(Error):
    """A message is of another version of Bolide."""


class _Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a message; an unknown field is an error."""


class Request(_Struct, frozen=True, kw_only=True):
    """One kind of request, as in a plan of `_core.Load`."""

    method: str
    target: str
    host: str
    field_lines: list[tuple[str, str]]
    content: bytes | None
    weight: int
    expected_status: int | None
    expected_length: int | None
    expected_content: bytes | None
    is_any_length: bool
    is_template: bool


class Tls(_Struct, frozen=True, kw_only=True):
    """How TLS is used; `authorities` is the content of a file in PEM, None verifies nothing."""

    server_name: str
    authorities: bytes | None
    is_resumed: bool
    version_min: str
    version_max: str


class WebSocket(_Struct, frozen=True, kw_only=True):
    """The messages of a WebSocket."""

    depth: int
    pattern: str
    message_bytes: int
    is_binary: bool
    is_compressed: bool


class Stage(_Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a run in which the load changes."""

    duration_s: float
    rate_per_s: float | None = None
    connections: int | None = None
    start_rate_per_s: float | None = None
    start_connections: int | None = None


class Order(_Struct, frozen=True, kw_only=True):
    """What one agent has to do. Connections, requests and rates are those of the whole fleet.

    `host` is a name or an address; the agent resolves it, and checks the result.
    """

    host: str
    port: int
    threads: int
    threads_before: int
    threads_all: int
    connections: int
    pipeline_depth: int
    streams: int
    is_persistent: bool
    http_version: str
    is_sleepless: bool
    requests: list[Request]
    warm_up_s: float
    timeout_s: float
    ramp_up_s: float = 0.0
    deadline_s: float | None = None
    tls: Tls | None = None
    websocket: WebSocket | None = None
    stages: list[Stage] | None = None
    rate_per_s: float | None = None
    requests_total: int | None = None
    duration_s: float | None = None

    @property
    def own_connections(self) -> int:
        """How many connections this agent opens."""
        return self._own(self.connections)

    @property
    def own_requests(self) -> int | None:
        """How many requests this agent sends; None if their number does not end the run."""
        return None if self.requests_total is None else self._own(self.requests_total)

    @property
    def own_rate_per_s(self) -> float | None:
        """The highest rate of this agent; None if nothing limits it."""
        rates: list[float | None] = [self.rate_per_s]
        if self.stages:
            rates = [each.rate_per_s for each in self.stages]
            rates += [each.start_rate_per_s or 0.0 for each in self.stages]
        known = [each for each in rates if each is not None]
        if len(known) < len(rates):
            return None
        return max(known) * self.threads / self.threads_all

    @property
    def least_s(self) -> float:
        """The seconds that it takes at least, also if a number of requests ends it."""
        if self.length_s is not None:
            return self.length_s
        sending_s = (self.requests_total or 0) / self.rate_per_s if self.rate_per_s else 0.0
        return self.ramp_up_s + self.warm_up_s + sending_s

    @property
    def length_s(self) -> float | None:
        """The planned seconds with the warm-up; None if a number of requests ends the run."""
        lead_s = self.ramp_up_s + self.warm_up_s
        if self.stages:
            return lead_s + sum(each.duration_s for each in self.stages)
        return None if self.duration_s is None else lead_s + self.duration_s

    def _own(self, total: int) -> int:
        """Return what this agent has of a total: the rest of the division is for the first."""
        each, rest = divmod(total, self.threads_all)
        return each * self.threads + max(0, min(self.threads, rest - self.threads_before))


class _Message(_Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A message, with its kind."""


class Greet(_Message, frozen=True, kw_only=True, tag="greet"):
    """Begins a session whose messages are sealed (`seal.py`); `nonce` is one of the coordinator."""

    nonce: str


class Hello(_Message, frozen=True, kw_only=True, tag="hello"):
    """Asks who the agent is."""


class Clock(_Message, frozen=True, kw_only=True, tag="clock"):
    """Asks for the agent's clock."""


class Prepare(_Message, frozen=True, kw_only=True, tag="prepare"):
    """Asks for a generator whose connections are open; `run` names it from now on.

    The reply does not wait for it.
    """

    run: str
    order: Order


class Begin(_Message, frozen=True, kw_only=True, tag="begin"):
    """Starts the load at a time of the agent's clock."""

    run: str
    at_ns: int


class Look(_Message, frozen=True, kw_only=True, tag="look"):
    """Asks for the state of the run, and with `counts` for what was counted since the last time."""

    run: str
    counts: bool = False


class Stop(_Message, frozen=True, kw_only=True, tag="stop"):
    """Ends the load early."""

    run: str


class Fetch(_Message, frozen=True, kw_only=True, tag="fetch"):
    """Asks for a piece of the result, which the agent keeps until `Forget`."""

    run: str
    offset: int


class Forget(_Message, frozen=True, kw_only=True, tag="forget"):
    """Ends a run, or frees its result."""

    run: str


class Greeting(_Message, frozen=True, kw_only=True, tag="greeting"):
    """The reply to `Greet`: the agent's own nonce, and a code for which it needs the secret."""

    nonce: str
    code: str


class Limits(_Struct, frozen=True, kw_only=True):
    """What an agent was started with; `allowed` are networks, `ports` empty if all are allowed."""

    allowed: list[str]
    ports: list[int]
    connections_max: int
    threads_max: int
    duration_s_max: float
    rate_per_s_max: float | None


class Description(_Message, frozen=True, kw_only=True, tag="description"):
    """Who an agent is, and its machine."""

    name: str
    host: str
    processors: int
    kernel: str
    processor: str
    memory_bytes: int
    python: str
    is_release_build: bool
    limits: Limits


class Time(_Message, frozen=True, kw_only=True, tag="time"):
    """The agent's clock: nanoseconds since some moment, which differs between machines."""

    now_ns: int


class State(_Message, frozen=True, kw_only=True, tag="state"):
    """The state of a run: "preparing", "opening", "ready", "running", "done" or "failed".

    With "failed" there is the reason.

    `snapshot` is what `_core.merged_progress` takes.
    """

    phase: str
    snapshot: str | None = None
    reason: str = ""


class Part(_Message, frozen=True, kw_only=True, tag="part"):
    """A piece of the counts of a run; there is none if the run has not ended.

    All pieces together, `total` characters, have the form that `_core.merged_report` takes.
    """

    has_ended: bool
    piece: str
    total: int
    ended: str
    """At what, or why, the agent itself ended the load; empty if it did not."""
    target: str
    """The address that was loaded: a name may have another one on each agent."""


class Done(_Message, frozen=True, kw_only=True, tag="forgotten"):
    """The reply to `Forget`."""


class Refusal(_Message, frozen=True, kw_only=True, tag="refusal"):
    """What an agent does not do, and why."""

    reason: str
    is_mistake: bool = False
    """Whether it is for a mistake of the user, which would be refused again."""


_SHOWN: dict[type[object], tuple[str, ...]] = {
    Description: ("name", "host", "kernel", "processor", "python"),
    State: ("reason",),
    Part: ("ended", "target"),
    Refusal: ("reason",),
}
"""Texts of replies that users see."""

Question = Greet | Hello | Clock | Prepare | Begin | Look | Stop | Fetch | Forget
Reply = Greeting | Description | Time | State | Part | Done | Refusal


class Seal(_Struct, frozen=True, kw_only=True):
    """What proves where a message comes from: `seal.py` explains it."""

    session: str
    number: int
    code: str


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is around every message, in all versions."""

    schema: int
    version: str
    message: msgspec.Raw
    seal: Seal | None = None

    def sealed(self, seal: Seal) -> bytes:
        """Return the bytes of the same message with a seal."""
        return msgspec.json.encode(msgspec.structs.replace(self, seal=seal))


SHOWN_MAX = 500
"""How many characters of a text of another machine are shown."""


def printable(text: str) -> str:
    """Return a text of another machine in one short line, without what a terminal would obey."""
    if len(text) > SHOWN_MAX:
        text = text[:SHOWN_MAX] + "\N{HORIZONTAL ELLIPSIS}"
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def encode(message: Question | Reply) -> bytes:
    """Return the bytes of a message."""
    return msgspec.json.encode(enveloped(message))


def enveloped(message: Question | Reply) -> Envelope:
    """Put a message into its envelope."""
    return Envelope(SCHEMA, _core.__version__, msgspec.Raw(msgspec.json.encode(message)))


def envelope(octets: bytes) -> Envelope:
    """Read what is around a message.

    Raises:
        VersionError: it has another version.
        Error: it is no message.
    """
    found: Envelope = _decoded(octets, Envelope)
    if (found.schema, found.version) != (SCHEMA, _core.__version__):
        raise VersionError(
            f"Bolide {printable(found.version)} instead of {_core.__version__}; install the same "
            "version everywhere"
        )
    return found


def question_in(found: Envelope) -> Question:
    """Read what a coordinator sent.

    Raises:
        Error: it is no message.
    """
    question: Question = _decoded(found.message, Question)
    return question


def question(octets: bytes) -> Question:
    """Read what a coordinator sent.

    Raises:
        VersionError: it has another version.
        Error: it is no message.
    """
    return question_in(envelope(octets))


def reply(octets: bytes) -> Reply:
    """Read what an agent sent.

    Raises:
        VersionError: it has another version.
        Error: it is no message.
    """
    found: Reply = _decoded(envelope(octets).message, Reply)
    texts = {name: printable(getattr(found, name)) for name in _SHOWN.get(type(found), ())}
    return msgspec.structs.replace(found, **texts) if texts else found


def _decoded(octets: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(octets, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Error(f"a message between coordinator and agent is malformed: {error}") from None
