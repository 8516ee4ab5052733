"""The command `bolide doctor`: its flags and its output."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from bolide import streams
from bolide.doctor.finding import BACKLOG, Load, Role
from bolide.errors import ConfigError
from bolide.flags import PORT, count

EXIT_LIMITS = 1
SAMPLE_S = 0.5
COUNT_MAX = 10**9
PROFILES = ("server", "load-generator", "race")
"""The profiles of `profile.toml`; a test compares the two."""


@click.command()
@click.option(
    "-c",
    "--connections",
    type=count(most=COUNT_MAX),
    default=1000,
    help="Concurrent connections. [1000]",
)
@click.option(
    "--new-per-second", type=count(0, COUNT_MAX), default=100, help="New connections. [100]"
)
@click.option(
    "--backlog",
    type=count(most=COUNT_MAX),
    default=BACKLOG,
    help=f"Backlog that the server passes to listen(). [{BACKLOG}]",
)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.ANY.value,
    help=f"End of the connections on this machine; loopback: both. [{Role.ANY.value}]",
)
@click.option("--port", type=PORT, help="Port of a running server to examine too.")
@click.option("--all", "is_whole", is_flag=True, help="Show every row, not only the limits.")
@click.option("--json", "as_json", is_flag=True, help="Print every row as JSON.")
@click.option("--check", is_flag=True, help="Exit with 1 if something limits the load.")
@click.option(
    "--tune",
    type=click.Choice(PROFILES),
    help="Apply a profile's settings (root); with -- CMD, only while CMD runs.",
)
@click.option("--dry-run", is_flag=True, help="With --tune: only print what would be written.")
@click.option("--restore", is_flag=True, help="Restore what --tune has changed (root).")
@click.option("--root", type=click.Path(path_type=Path), default="/", hidden=True)
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
def doctor(
    connections: int,
    new_per_second: int,
    backlog: int,
    role: str,
    port: int | None,
    is_whole: bool,
    as_json: bool,
    check: bool,
    tune: str | None,
    dry_run: bool,
    restore: bool,
    root: Path,
    cmd: tuple[str, ...],
) -> None:
    """Report which settings of this machine limit an HTTP server.

    The settings are judged for the given load. Nothing is written, except with --tune, which
    records the old values and applies a profile, and with --restore, which writes the old values
    back.
    """
    from bolide.doctor import session

    if tune and restore:
        raise ConfigError("--tune and --restore are opposites; give only one of them")
    if (cmd or dry_run) and not tune:
        what = "a command" if cmd else "--dry-run"
        raise ConfigError(f"{what} goes with --tune: bolide doctor --tune race -- CMD...")
    if restore:
        sys.exit(session.restore(root, _say))
    if tune:
        sys.exit(session.tune(root, tune, list(cmd), _say, is_dry=dry_run))
    load = Load(connections, new_per_second, backlog, Role(role), port)
    _examine(root, load, is_whole=is_whole, as_json=as_json, check=check)


def _examine(root: Path, load: Load, *, is_whole: bool, as_json: bool, check: bool) -> None:
    from bolide.doctor import table
    from bolide.doctor.examination import examine
    from bolide.doctor.source import Source

    found = examine(Source(root), load, lambda: time.sleep(SAMPLE_S))
    if as_json:
        _print(json.dumps(found.as_dict(), indent=2))
    else:
        width = shutil.get_terminal_size().columns
        is_coloured = bool(sys.stdout and sys.stdout.isatty()) and not os.environ.get("NO_COLOR")
        text = table.render(found, is_whole=is_whole, width=width, is_coloured=is_coloured)
        _print(text, is_coloured=is_coloured)
    if check and found.is_bitten:
        sys.exit(EXIT_LIMITS)


def _print(text: str, *, is_coloured: bool = False) -> None:
    streams.show(text, "the findings", color=is_coloured)


def _say(line: str) -> None:
    with suppress(OSError):  # the settings must be restored even if nothing reads the output
        click.echo(line, err=True)
