"""Other tools' command lines, taken as they are: `--like "ab -k -c 100 -n 100000 URL"`.

Each tool has a file that turns its options into ours. One that cannot be honoured is refused by
name, with the mend; none is dropped silently.
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
    """Read a command line; give the tool's name and what it asks for.

    Raises:
        ConfigError: no such tool, or an option that does not exist or cannot be honoured.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--like: {text!r} cannot be split into words: {error}") from None
    name = PurePath(words[0]).name if words else ""
    if name not in TOOLS:
        raise ConfigError(f"--like: {text!r} begins with no tool; give {' or '.join(TOOLS)}")
    return name, TOOLS[name](words[1:])
