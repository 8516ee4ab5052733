"""Other tools' command lines, accepted as they are: `--like "ab -k -c 100 -n 100000 URL"`.

Each tool has a file that converts its options to ours. An option that is not supported is rejected
by name, with a remedy; none is ignored silently.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import PurePath

from bolide.errors import ConfigError
from bolide.load.like import ab, webbench, wrk
from bolide.load.options import Options

TOOLS: dict[str, Callable[[list[str]], Options]] = {
    "ab": ab.read,
    "wrk": wrk.read,
    "webbench": webbench.read,
}


def read(text: str) -> tuple[str, Options]:
    """Parse a command line; return the tool's name and the options.

    Raises:
        ConfigError: the tool is unknown, or an option is unknown or not supported.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--like: {text!r} cannot be split into words: {error}") from None
    name = PurePath(words[0]).name if words else ""
    if name not in TOOLS:
        raise ConfigError(f"--like: {text!r} does not start with {' or '.join(TOOLS)}")
    return name, TOOLS[name](words[1:])
