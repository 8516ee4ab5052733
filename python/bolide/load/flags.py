"""The flags of `bolide load`, in the sections of its help text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bolide.flags import TIME, count, fleet_options
from bolide.load.transport.websocket import PATTERNS
from bolide.load.views import VIEWS


def _value(names: str, metavar: str, text: str, **more: Any) -> click.Option:
    """Declare an option with a value; `names` are separated by spaces."""
    return click.Option(names.split(), metavar=metavar, help=text, **more)


def _time(names: str, text: str, default: float | None = None) -> click.Option:
    return click.Option(names.split(), type=TIME, help=text, default=default)


def _count(
    names: str, text: str, default: int | None = None, most: float = float("inf")
) -> click.Option:
    return click.Option(names.split(), type=count(most=most), help=text, default=default)


def _file(names: str, text: str) -> click.Option:
    return _value(names, "FILE", text, type=click.Path(path_type=Path))


def _several(names: str, metavar: str, text: str) -> click.Option:
    return _value(names, metavar, text, multiple=True)


def _switch(names: str, text: str) -> click.Option:
    return click.Option(names.split(), is_flag=True, help=text)


def _version(names: str, text: str, default: str) -> click.Option:
    versions = click.Choice(["1.2", "1.3"])
    return click.Option(names.split(), type=versions, metavar="1.2|1.3", help=text, default=default)


DEPTH_MAX = 1_000_000
"""Requests without a response on one connection: all of them are rendered before the run."""
THREADS_MAX = 1024

SECTIONS: dict[str, tuple[click.Option, ...]] = {
    "Load": (
        _count("-c --connections", "Concurrent connections. [100]", 100),
        _count("--pipeline", "Outstanding requests per connection. [1]", 1, DEPTH_MAX),
        _count("--streams", "The same over HTTP/2, each on a stream. [1]", 1, DEPTH_MAX),
        _time("-d --duration duration_s", "Duration: 10, 500ms, 30s, 2m. [10]"),
        _count("-n --requests", "Number of requests, instead of a duration."),
        _time("--warm-up warm_up_s", "Time before the measurement starts.", 0.0),
        _count("--rate", "Requests per second, however fast the server responds (open loop)."),
        _value(
            "--stages",
            "TIME:RATE,...",
            "Changing rates, 10s:1000,30s:5000, or connections, 10s:50c,30s:200c.",
            default="",
        ),
        _time("--ramp-up ramp_up_s", "Time in which the load first rises, not measured.", 0.0),
        _value("--find", "CONDITION", "Find the highest rate that meets it: 'p99 < 10ms'."),
    ),
    "Requests": (
        _value("-X --method", "METHOD", "Method. [GET; POST with a body]", default=""),
        _several(
            "-H --header headers",
            "HEADER",
            "Header 'Name: value'; may be repeated.",
        ),
        _value("--body", "TEXT", "Content of the requests, or of the messages."),
        _file("--body-file", "File with the content of the requests."),
        _value("--target", "PATH", "Request target for unix:PATH. [/]", default=""),
        _file("--request-file", "Requests with weights, in TOML (docs/load.md)."),
        _switch("--no-keep-alive", "Open a new connection for each request."),
        _switch("--http1.0 is_http10", "Use HTTP/1.0."),
        _switch("--http2 is_http2", "Use HTTP/2, for http:// with prior knowledge."),
        _several("--source source_addresses", "ADDRESS", "Source address; may be repeated."),
    ),
    "WebSocket, for ws:// and wss://": (
        _count("--depth", "Messages in one send, outstanding per connection. [1]", 1, DEPTH_MAX),
        _value(
            "--pattern",
            "|".join(PATTERNS),
            "What the server does with a message. [echo]",
            type=click.Choice(PATTERNS),
            default="echo",
        ),
        _value("--message-bytes", "BYTES", "Size of a message. [64]", type=click.IntRange(0)),
        _switch("--binary is_binary", "Send binary messages, not text."),
        _switch("--compress is_compressed", "Require permessage-deflate."),
    ),
    "TLS": (
        _switch("--insecure is_insecure", "Do not verify the server's certificate."),
        _file("--cacert authorities", "Authorities that issue it. [the system's]"),
        _file("--cert certificate", "Certificate of the client, in PEM."),
        _file("--key", "Its key, if it is in another file."),
        _switch("--no-resumption", "Make every TLS handshake a full one."),
        _version("--tls-min", "Lowest version of TLS. [1.2]", "1.2"),
        _version("--tls-max", "Highest version of TLS. [1.3]", "1.3"),
    ),
    "Responses": (
        _value("--expect-status", "STATUS", "Expected status. [200 to 299]", type=int),
        _value("--expect-length", "BYTES", "Expected length of the content.", type=int),
        _value("--expect-body", "TEXT|@FILE", "Expected content."),
        _switch("--expect-same", "Expect all bytes as in the first response, except Date."),
        _time("--timeout timeout_s", "Maximum time for a response. [5]", 5.0),
        _time("--deadline deadline_s", "Count correct responses that take longer as failed."),
        _several("--require", "CONDITION", "Exit with 1 unless it is met: 'errors == 0'."),
    ),
    "Generator": (
        _count("-t --threads", "Threads, which share the connections. [1]", 1, THREADS_MAX),
        _value("--cpus", "LIST", "Processors to which threads are bound: 0,2-3.", default=""),
        _switch("--sleepless", "Poll without sleeping."),
        *fleet_options(),
    ),
    "Output": (
        _switch("--json as_json", "Print the report and the plan as JSON."),
        _switch("--csv as_csv", "Print a header and a line of CSV."),
        _value(
            "--view", "|".join(VIEWS), "Print in that tool's format.", type=click.Choice([*VIEWS])
        ),
        _value("--like", "COMMAND", "Run another tool's command line, and print in its format."),
        _switch("--quiet", "Do not show progress."),
    ),
}
"""The options by section of the help text."""


class SectionedCommand(click.Command):
    """A command whose help lists its options by `SECTIONS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options as its own section."""
        for name, options in SECTIONS.items():
            records = [option.get_help_record(ctx) for option in options]
            with formatter.section(name):
                formatter.write_dl([record for record in records if record is not None])
