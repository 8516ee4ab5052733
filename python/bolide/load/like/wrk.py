"""The command line of wrk 4."""

from __future__ import annotations

from bolide.errors import ConfigError
from bolide.load.like.commandline import Syntax, closes
from bolide.load.options import Options

SYNTAX = Syntax(
    "wrk",
    "c:d:t:s:H:Lv",
    (
        "connections=",
        "duration=",
        "threads=",
        "script=",
        "header=",
        "latency",
        "timeout=",
        "version",
    ),
    {
        "--connections": "-c",
        "--duration": "-d",
        "--threads": "-t",
        "--script": "-s",
        "--header": "-H",
        "--latency": "-L",
        "--version": "-v",
    },
    {
        "-s": "Lua scripts are not supported; give --pipeline N for batches, --request-file for "
        "mixes",
        "-v": "asks for a version, not for a run; see bolide --version",
    },
)


def read(words: list[str]) -> Options:
    """Convert options to ours: each thread has the same number of connections, as in wrk.

    Raises:
        ConfigError: an option is unknown or not supported.
    """
    given = SYNTAX.read(words)
    connections, threads = given.count("-c", 10), given.count("-t", 2)
    if connections < threads:
        raise ConfigError(
            f"--like: wrk -c {connections} is less than -t {threads}; give at least -t"
        )
    headers, is_closing = closes(given.all("-H"))
    return Options(
        urls=(given.url,),
        is_insecure=given.url.startswith("https:"),
        connections=connections // threads * threads,
        threads=threads,
        duration_s=given.seconds("-d") or 10.0,
        timeout_s=given.seconds("--timeout") or 2.0,
        headers=tuple(headers),
        is_persistent=not is_closing,
        shows_percentiles=given.has("-L"),
    )
