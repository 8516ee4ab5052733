"""Writes docs/settings.md from the option table; `make docs` runs it."""

from __future__ import annotations

import sys

from bolide.config.row import Option
from bolide.config.settings import table

HEAD = """\
# Settings

This page is for people who look up an option: its name, default, unit and reason.

<!-- Written by `make docs` from the options in python/bolide/config/settings.py; do not edit. -->

Each option can be set in four places. If several set it, the first in this list wins:

1. a flag of `bolide serve` (`--keep-alive-timeout-ms 5000`) or a keyword of `bolide.run` and
   `bolide.serve` (`keep_alive_timeout_ms=5000`);
2. an environment variable (`BOLIDE_KEEP_ALIVE_TIMEOUT_MS=5000`);
3. the configuration file: `bolide.toml` in the current folder, or else the table `[tool.bolide]` of
   `pyproject.toml` there; `--config PATH` or `BOLIDE_CONFIG` names another file;
4. its default.

The addresses are one setting: `bind`, `uds`, or `host` and `port`. The first place that sets any of
them determines all of them. So are the certificates: `certificate`, `key` and `key_password_file`,
or the tables `[[tls]]` of a file ([TLS](tls.md)). The name of a limit or timeout ends in its unit.
A timeout of 0 is off. Bytes may be given with K, M, G or T, each 1024 times the one before, as in
`--body-bytes-max 64M` or `1.5G` (in a file with quotes: `"64M"`); milliseconds are plain numbers.
"""

TABLE_HEAD = "| option | value | default | meaning |\n| --- | --- | --- | --- |\n"


def render() -> str:
    """Return the document."""
    parts = [HEAD]
    group = ""
    for option in table():
        if option.group != group:
            group = option.group
            parts.append(f"\n## {group}\n\n{TABLE_HEAD}")
        parts.append(_line(option))
    return "".join(parts)


def default_text(option: Option) -> str:
    """Format a default with its unit."""
    if isinstance(option.default, bool):
        return "on" if option.default else "off"
    if option.default in ("", (), None):
        return "not set"
    if isinstance(option.default, tuple):
        return ",".join(option.default)
    unit = "" if isinstance(option.default, str) else option.unit
    return f"{option.default} {unit}".strip().removesuffix(" count")


def _line(option: Option) -> str:
    value = option.kind.metavar.replace("|", " \\| ") or "true \\| false"
    help_text = option.help.replace("|", "\\|")
    return f"| `{option.name}` | {value} | {default_text(option)} | {help_text} |\n"


if __name__ == "__main__":
    sys.stdout.write(render())
