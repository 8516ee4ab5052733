"""WebSocket in a plan: what the messages are, and what the server does with them."""

from __future__ import annotations

from typing import Any

from bolide.errors import ConfigError
from bolide.load.destination import Destination
from bolide.load.options import Options

PATTERNS = ("echo", "one-way", "broadcast")
"""The server sends a message back; only reads it; sends it to all connections."""
MESSAGE_BYTES = 64
MESSAGE_BYTES_MAX = 1 << 24
_FLAGS = {
    "pipeline": "--pipeline",
    "method": "--method",
    "request_file": "--request-file",
    "expect_status": "--expect-status",
    "expect_length": "--expect-length",
    "expect_body": "--expect-body",
    "expect_same": "--expect-same",
}
"""Options of HTTP only: a WebSocket's responses are known from its messages."""
_OWN_FLAGS = {
    "depth": "--depth",
    "pattern": "--pattern",
    "message_bytes": "--message-bytes",
    "is_binary": "--binary",
    "is_compressed": "--compress",
}


def of(options: Options, destination: Destination) -> dict[str, Any] | None:
    """Return the plan's `websocket`; None for a URL without ws or wss.

    Raises:
        ConfigError: two options contradict each other, or do not fit the URL.
    """
    if not destination.is_websocket:
        for name, flag in _OWN_FLAGS.items():
            if _is_given(options, name):
                raise ConfigError(f"{flag} is for ws:// and wss://; {destination.url} is not")
        return None
    for name, flag in _FLAGS.items():
        if _is_given(options, name):
            raise ConfigError(f"{flag} is for http://; {destination.url} is a WebSocket")
    if options.http_version != "1.1":
        raise ConfigError("a WebSocket is opened over HTTP/1.1; leave out --http1.0 and --http2")
    if options.body is not None and options.message_bytes is not None:
        raise ConfigError("--message-bytes and --body both set the messages; give only one of them")
    _refuse_sizes(options)
    if options.pattern == "broadcast":
        _refuse_broadcasts(options)
    return {
        "depth": options.depth,
        "pattern": options.pattern,
        "message_bytes": _message_bytes(options),
        "is_binary": options.is_binary,
        "is_compressed": options.is_compressed,
    }


def _message_bytes(options: Options) -> int:
    if options.body is not None:
        return len(options.body)
    return MESSAGE_BYTES if options.message_bytes is None else options.message_bytes


def _refuse_sizes(options: Options) -> None:
    if _message_bytes(options) > MESSAGE_BYTES_MAX:
        raise ConfigError(f"a message has at most {MESSAGE_BYTES_MAX:,} bytes; give less")
    if options.depth > 1 and not options.is_persistent:
        raise ConfigError("--depth needs persistent connections; leave out --no-keep-alive")
    if options.body is not None and not options.is_binary:
        try:
            options.body.decode()
        except UnicodeDecodeError:
            raise ConfigError("a text message is UTF-8; give --binary as well") from None


def _refuse_broadcasts(options: Options) -> None:
    for name, flag in {"rate": "--rate", "stages": "--stages", "ramp_up_s": "--ramp-up"}.items():
        if getattr(options, name):
            raise ConfigError(
                f"{flag} does not fit --pattern broadcast, whose next messages follow when all "
                "connections have received the last ones"
            )
    if options.requests:
        raise ConfigError("--pattern broadcast needs a duration; leave out --requests")
    if options.threads > 1:
        raise ConfigError("--pattern broadcast needs one thread; leave out --threads")
    if not options.is_persistent:
        raise ConfigError(
            "--pattern broadcast needs persistent connections; leave out --no-keep-alive"
        )


def _is_given(options: Options, name: str) -> bool:
    """Whether an option differs from its default."""
    return bool(getattr(options, name) != Options.__dataclass_fields__[name].default)
