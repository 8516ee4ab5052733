"""The commands `bolide status`, `reload`, `upgrade`, `stop` and `top`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from bolide.config.settings import resolve
from bolide.errors import ConfigError, Error
from bolide.flags import TIME, count
from bolide.manage.client import Client, NoListenerError, UnreachableError
from bolide.manage.rates import between
from bolide.manage.screen import Keys, fitted
from bolide.manage.slowest import slowest_between
from bolide.manage.status import Results, Status
from bolide.manage.view import status_text, top_text

POLL_S = 0.1
UPDATES_MAX = 10**9
TIMEOUT_S = 120.0
"""Long enough for most applications to be imported, and for requests in flight to finish. What was
asked for goes on after that."""
UPGRADE_TIMEOUT_S = 180.0
"""Longer than the server itself waits for its new process (upgrade_timeout_ms), so that it says
what became of it."""

Command = Callable[..., None]


def _with_address(command: Command) -> Command:
    """Add the flags that say where the server is."""
    config = click.option("--config", metavar="PATH", help="Configuration file. [BOLIDE_CONFIG]")
    address = click.option(
        "--management",
        metavar="ADDRESS",
        help="Management listener of the server: HOST:PORT or unix:PATH. [as `bolide serve` would"
        " read it: BOLIDE_MANAGEMENT, bolide.toml]",
    )
    return address(config(command))


def _timeout(default_s: float) -> Callable[[Command], Command]:
    """Add the flag that bounds the time to wait."""
    text = f"Longest time to wait for the end. [{default_s / 60:g}m]"
    return click.option("--timeout", type=TIME, default=default_s, help=text)


_waiting = click.option("--wait/--no-wait", default=True, help="Wait for the end. [--wait]")


def _client(management: str | None, config: str | None) -> Client:
    """Return the client of the server that the options name.

    Raises:
        ConfigError: they name none.
    """
    given = {} if management is None else {"management": management}
    address = resolve(given, "flag", config=config).management
    if address is None:
        text = "no management listener is named; give --management ADDRESS, as to `bolide serve`"
        raise ConfigError(text)
    if not address.path and not address.port:
        raise ConfigError(f"{address} names no port; the server's log has it (management on ...)")
    return Client(address)


@click.command(short_help="Show the workers of a running server.")
@_with_address
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--check", is_flag=True, help="Print one line, and exit with 3 unless it serves.")
def status(management: str | None, config: str | None, as_json: bool, check: bool) -> None:
    """Show a running server, its workers, and the options that are not defaults."""
    if as_json and check:
        raise ConfigError("--check prints one line; leave out --json")
    client = _client(management, config)
    if check:
        click.echo(client.ready())
        return
    click.echo(client.status_as_json() if as_json else status_text(client.status()))


@click.command(short_help="Reload a running server, as HUP does.")
@_with_address
@_waiting
@_timeout(TIMEOUT_S)
def reload(management: str | None, config: str | None, wait: bool, timeout: float) -> None:
    """Replace the workers of a running server, as the signal HUP does.

    It exits with 3 if the reload fails, after which the workers of before go on. The server's log
    says why. It also does if the reload takes longer than the timeout, which does not stop it.
    """
    client = _client(management, config)
    before = client.status()
    number = client.command("reload")
    if wait:
        _wait(lambda: _is_reloaded(number, before, client.status()), "reload", timeout)
    click.echo("reloaded" if wait else "reloading")


def _wait(is_over: Callable[[], bool], what: str, timeout: float) -> None:
    """Wait for the end of what was asked for.

    Raises:
        Error: it has not ended in time.
    """
    due = time.monotonic() + timeout
    while not is_over():
        if time.monotonic() >= due:
            text = f"the {what} has not ended within {timeout:g} s, and continues"
            raise Error(f"{text}; see `bolide status` and the server's log, or raise --timeout")
        time.sleep(POLL_S)


def _result(number: str, of: Results | None, what: str) -> str | None:
    """Return the result of what has this number; None if it has not ended.

    Raises:
        Error: the server does not say.
    """
    if of is None or not number:
        text = f"the server has accepted the {what}, but does not say what becomes of it"
        raise Error(f"{text}; is it of another version? see its log, or use --no-wait")
    return of.results.get(number)


def _is_reloaded(number: str, before: Status, after: Status) -> bool:
    """Return whether the reload with this number has ended.

    Raises:
        Error: it has failed, or the second status is that of another process.
    """
    if before.process != after.process:
        text = "another process has taken over during the reload, by an upgrade or a restart"
        raise Error(f"{text}; the server's log says whether the reload ended")
    result = _result(number, after.reloads, "reload")
    if result == "failed":
        raise Error("the reload has failed; the server's log says why")
    return result is not None


@click.command(short_help="Upgrade a running server, as USR2 does.")
@_with_address
@_waiting
@_timeout(UPGRADE_TIMEOUT_S)
def upgrade(management: str | None, config: str | None, wait: bool, timeout: float) -> None:
    """Let a new process take over a running server, as the signal USR2 does.

    It runs what is installed now: another version of the application, of Bolide or of Python. It
    exits with 3 if the new process does not serve, after which the old one goes on. The server's
    log says why. It also does if the upgrade takes longer than the timeout, which does not stop it.
    """
    client = _client(management, config)
    before = client.status()
    number = client.command("upgrade")
    if wait:
        _wait(lambda: _is_upgraded(number, before, client.status()), "upgrade", timeout)
        pid = client.status().pid
        click.echo(f"upgraded: process {pid} serves, and process {before.pid} drains")
    else:
        click.echo("upgrading")


def _is_upgraded(number: str, before: Status, after: Status) -> bool:
    """Return whether the upgrade with this number has ended.

    Raises:
        Error: it has failed, or the second status is of a process that has another origin.
    """
    if before.process == after.process:
        if _result(number, after.upgrades, "upgrade") == "failed":
            raise Error("the upgrade has failed, and the old process goes on; the log says why")
        return False
    origin = after.took_over
    if origin is not None and (origin.process, origin.upgrade) == (before.process, number):
        return True
    raise Error("another process serves now, which this upgrade has not started; the log has more")


@click.command(short_help="Stop a running server, as TERM does.")
@_with_address
@_waiting
@_timeout(TIMEOUT_S)
def stop(management: str | None, config: str | None, wait: bool, timeout: float) -> None:
    """Let a running server finish its requests and end, as the signal TERM does.

    It exits with 3 if that takes longer than the timeout. The server ends nevertheless, at the
    latest when its graceful_timeout_ms are over.
    """
    client = _client(management, config)
    process = client.status().process
    client.command("stop")
    if wait:
        _wait(lambda: not _is_there(client, process), "stop", timeout)
    click.echo("stopped" if wait else "stopping")


def _is_there(client: Client, process: tuple[int | None, float | None]) -> bool:
    try:
        return client.status().process == process
    except NoListenerError:
        return False
    except UnreachableError:  # a time without a response, or a descriptor, is no end
        return True


@click.command(short_help="Watch a running server.")
@_with_address
@click.option("--interval", type=TIME, default=1.0, help="Time between updates. [1s]")
@click.option("-n", "--updates", type=count(1, UPDATES_MAX), help="End after so many updates.")
def top(management: str | None, config: str | None, interval: float, updates: int | None) -> None:
    """Show rates, durations, slowest routes and workers of a running server, until q or Ctrl-C."""
    client = _client(management, config)
    is_screen = sys.stdout.isatty()
    keys = click.get_current_context().with_resource(Keys())
    before, earlier, then = client.metrics(), client.status(), time.monotonic()
    while updates is None or updates > 0:
        if keys.ended(interval):
            return
        after, status, now = client.metrics(), client.status(), time.monotonic()
        counted, elapsed_s = earlier.requests, now - then
        per_worker = {
            pid: max(0, total - counted.get(pid, 0)) / elapsed_s
            for pid, total in status.requests.items()
        }
        routes = slowest_between(earlier, status, elapsed_s)
        rates = between(before, after, elapsed_s)
        text = top_text(status, rates, after, per_worker, routes)
        click.echo(fitted(text) if is_screen else f"{text}\n")
        before, earlier, then = after, status, now
        updates = None if updates is None else updates - 1
