"""The command line of webbench 1.5: clients that each open a connection for every request.

`-c` clients become that many connections of one thread. HTTP/1.0 is the default, as in webbench.
"""

from __future__ import annotations

from bolide.errors import ConfigError
from bolide.load.like.commandline import Syntax
from bolide.load.options import Options

SYNTAX = Syntax(
    "webbench",
    "fr912t:p:c:hV?",
    (
        "force",
        "reload",
        "time=",
        "proxy=",
        "clients=",
        "http09",
        "http10",
        "http11",
        "get",
        "head",
        "options",
        "trace",
        "help",
        "version",
    ),
    {
        "--force": "-f",
        "--reload": "-r",
        "--time": "-t",
        "--proxy": "-p",
        "--clients": "-c",
        "--http09": "-9",
        "--http10": "-1",
        "--http11": "-2",
        "--version": "-V",
        "--help": "-h",
        "-?": "-h",
    },
    {
        "-f": "every response is read and verified; leave it out",
        "-9": "HTTP/0.9 is not supported; give -1 or -2",
        "-V": "asks for a version, not for a run; see bolide --version",
        "-h": "asks for help, not for a run; see docs/load.md",
    },
)
_METHODS = {"--get": "GET", "--head": "HEAD", "--options": "OPTIONS", "--trace": "TRACE"}


def read(words: list[str]) -> Options:
    """Convert options to ours.

    Raises:
        ConfigError: an option is unknown or not supported.
    """
    given = SYNTAX.read(words)
    _, scheme, rest = given.url.partition("://")
    if not scheme or "/" not in rest:
        raise ConfigError(
            f"--like: webbench: {given.url!r} has no slash after its host; give http://HOST:PORT/"
        )
    methods = [_METHODS[name] for name, _ in given.pairs if name in _METHODS]
    versions = [name for name, _ in given.pairs if name in ("-1", "-2")]
    headers = ["User-Agent: WebBench 1.5"]
    if given.has("-r"):
        headers.append("Pragma: no-cache")
    return Options(
        urls=(given.url,),
        proxy=given.text("-p"),
        connections=given.count("-c", 1),
        duration_s=given.seconds("-t") or 30.0,
        timeout_s=30.0,
        http_version="1.1" if versions[-1:] == ["-2"] else "1.0",
        is_persistent=False,
        method=(methods or ["GET"])[-1],
        headers=tuple(headers),
    )
