"""The messages between the coordinator and the agents: JSON, and nothing that can be executed.

Each message is in an envelope with the schema's version and that of Bolide. Both sides refuse
another one, so the messages may change with every version; the envelope never does.
"""

from __future__ import annotations

import msgspec

from bolide import _core
from bolide.errors import Error

SCHEMA = 1


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
    deadline_s: float | None = None
    tls: Tls | None = None
    websocket: WebSocket | None = None
    stages: list[Stage] | None = None
    rate_per_s: float | None = None
    requests_total: int | None = None
    duration_s: float | None = None

    @property
    def own_connections(self) -> int:
        """How many connections this agent opens: the rest of the division is for the first."""
        each, rest = divmod(self.connections, self.threads_all)
        first = max(0, min(self.threads, rest - self.threads_before))
        return each * self.threads + first

    @property
    def length_s(self) -> float | None:
        """The planned seconds with the warm-up; None if a number of requests ends the run."""
        if self.stages:
            return self.warm_up_s + sum(each.duration_s for each in self.stages)
        return None if self.duration_s is None else self.warm_up_s + self.duration_s


class _Message(_Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A message, with its kind."""


class Hello(_Message, frozen=True, kw_only=True, tag="hello"):
    """Asks who the agent is."""


class Clock(_Message, frozen=True, kw_only=True, tag="clock"):
    """Asks for the agent's clock."""


class Prepare(_Message, frozen=True, kw_only=True, tag="prepare"):
    """Asks for a generator whose connections are open; `run` names it from now on."""

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
    """Asks for the result, after which the run is forgotten."""

    run: str


class Forget(_Message, frozen=True, kw_only=True, tag="forget"):
    """Ends a run without a result."""

    run: str


class Limits(_Struct, frozen=True, kw_only=True):
    """What an agent was started with; `allowed` are networks."""

    allowed: list[str]
    connections_max: int
    duration_s_max: float


class Description(_Message, frozen=True, kw_only=True, tag="description"):
    """Who an agent is, and its machine."""

    name: str
    host: str
    processors: int
    kernel: str
    processor: str
    python: str
    limits: Limits


class Time(_Message, frozen=True, kw_only=True, tag="time"):
    """The agent's clock: nanoseconds since some moment, which differs between machines."""

    now_ns: int


class State(_Message, frozen=True, kw_only=True, tag="state"):
    """The state of a run: "opening", "ready", "running", "done" or "failed" with the reason.

    `snapshot` is what `_core.merged_progress` takes.
    """

    phase: str
    snapshot: str | None = None
    reason: str = ""


class Result(_Message, frozen=True, kw_only=True, tag="result"):
    """The counts of a run that has ended, in the form that `_core.merged_report` takes."""

    record: str
    was_cut: bool
    """The agent's own limit ended it."""


class Done(_Message, frozen=True, kw_only=True, tag="forgotten"):
    """The reply to `Forget`."""


class Refusal(_Message, frozen=True, kw_only=True, tag="refusal"):
    """What an agent does not do, and why."""

    reason: str


Question = Hello | Clock | Prepare | Begin | Look | Stop | Fetch | Forget
Reply = Description | Time | State | Result | Done | Refusal


class _Envelope(msgspec.Struct, frozen=True):
    """What is around every message, in all versions."""

    schema: int
    version: str
    message: msgspec.Raw


def encode(message: Question | Reply) -> bytes:
    """Return the bytes of a message."""
    inner = msgspec.Raw(msgspec.json.encode(message))
    return msgspec.json.encode(_Envelope(SCHEMA, _core.__version__, inner))


def question(octets: bytes) -> Question:
    """Read what a coordinator sent.

    Raises:
        VersionError: it has another version.
        Error: it is no message.
    """
    return _decode(octets, Question)  # type: ignore[return-value,arg-type]


def reply(octets: bytes) -> Reply:
    """Read what an agent sent.

    Raises:
        VersionError: it has another version.
        Error: it is no message.
    """
    return _decode(octets, Reply)  # type: ignore[return-value,arg-type]


def _decode(octets: bytes, kind: type[object]) -> object:
    try:
        envelope = msgspec.json.decode(octets, type=_Envelope)
        if (envelope.schema, envelope.version) != (SCHEMA, _core.__version__):
            raise VersionError(
                f"Bolide {envelope.version} instead of {_core.__version__}; install the same "
                "version everywhere"
            )
        return msgspec.json.decode(envelope.message, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Error(f"a message between coordinator and agent is malformed: {error}") from None
