"""The command `bolide`: serve, status, reload, upgrade, stop, top, load, agent, race and others.

A user's mistake results in one line on standard error and exit code 2. The flags of `serve` are
generated from the option table in `settings.py`; this file declares none of them.
"""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import click

from bolide import _core, streams
from bolide.config.address import Address
from bolide.config.admission import PathLimits
from bolide.config.foreign import advice, unread
from bolide.config.option import Addresses, Paths, Switch
from bolide.config.reference import default_text
from bolide.config.row import Option
from bolide.config.settings import Settings, resolve, table
from bolide.errors import ConfigError, Error
from bolide.flags import PORT, TIME, count
from bolide.lazy_group import LazyGroup
from bolide.server import stderr

EXIT_MISTAKE = 2
EXIT_FAILURE = 3
EXIT_INTERRUPTED = 130
CONTENT_BYTES_MAX = 1 << 30
FILE = click.Path(path_type=Path)

LAZY = {
    "agent": "bolide.fleet.command",
    "doctor": "bolide.doctor.command",
    "load": "bolide.load.command",
    "race": "bolide.lab.command",
    "reload": "bolide.manage.command",
    "status": "bolide.manage.command",
    "stop": "bolide.manage.command",
    "top": "bolide.manage.command",
    "upgrade": "bolide.manage.command",
}
"""Subcommands, and the modules that define them."""
SERVE_WORDS = ("run", "start", "dev", "server", "up")
"""First words by which other servers' commands serve an application."""
TARGET_EXAMPLE = "name the application, for example `bolide serve main:app` for `app` in main.py"
RACE_FOLDER = "the folder of a race, which `bolide race` names at its end (--out)"
MISSING = {
    "TARGET": f" Give one: {TARGET_EXAMPLE}.",
    "DIR": f" Give {RACE_FOLDER}.",
    "A": f" Give two: each is {RACE_FOLDER}.",
    "B": f" Give two: each is {RACE_FOLDER}.",
}
"""What follows the message about a missing argument."""


class Commands(LazyGroup):
    """The commands of `bolide`; a target in place of a command gets the command line to use."""

    def suggestion(self, context: click.Context, name: str, following: Sequence[str]) -> str:
        """Suggest `bolide serve` for a target, and for the words of other servers' commands."""
        if "://" in name:
            return f"; did you mean `bolide load {name}`?"
        if _is_target(name):
            return f"; did you mean `bolide serve {shlex.join([name, *following])}`?"
        if name not in SERVE_WORDS:
            return super().suggestion(context, name, following)
        if following:
            return f"; did you mean `bolide serve {shlex.join(following)}`?"
        return f"; {TARGET_EXAMPLE}"


def _is_target(word: str) -> bool:
    """Whether the word looks like `module:app`, a file, or a module of the current folder."""
    return ":" in word or word.endswith(".py") or os.path.exists(f"{word}.py")


class ServeCommand(click.Command):
    """A command whose help lists the options of the table by group."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; a flag is not the value of the flag before it.

        Raises:
            BadOptionUsage: a flag that takes a value has none.
        """
        options = [each for each in self.get_params(context) if isinstance(each, click.Option)]
        flags = {name: each for each in options for name in (*each.opts, *each.secondary_opts)}
        for name, following in pairwise(args):
            if name in flags and not flags[name].is_flag and following in flags:
                raise click.BadOptionUsage(name, f"Option {name!r} requires an argument.", context)
        return super().parse_args(context, args)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options as its own section."""
        groups = {option.name: option.group for option in table()}
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in groups.values()}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and isinstance(parameter, click.Option):
                group = groups.get(parameter.name or "", "Other")
                sections.setdefault(group, []).append(record)
        for group, records in sections.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _click_option(option: Option) -> click.Option:
    """Create the flag of a row; `settings.resolve`, not click, parses and checks its value."""
    help_text = f"{option.help} [{default_text(option)}; {option.variable}]"
    if isinstance(option.kind, Switch) and not option.kind.metavar:
        names = f"{option.flag}/{option.flag.replace('--', '--no-', 1)}"
        return click.Option([names, option.name], default=None, help=help_text)
    return click.Option(
        [option.flag, option.name],
        metavar=option.kind.metavar,
        multiple=isinstance(option.kind, Addresses | Paths | PathLimits),
        help=help_text,
    )


@click.group(
    cls=Commands,
    lazy=LAZY,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_core.__version__, prog_name="bolide", message="%(prog)s %(version)s")
def command() -> None:
    """Bolide: a Python web server and micro-framework with a Rust core."""


def _serve(target: str, config: str | None, check: bool, **given: Any) -> None:
    """Serve the application TARGET: module:app or file.py:app. `:app` is the default attribute.

    Options can also be set by BOLIDE_* variables, and in bolide.toml or [tool.bolide] of
    pyproject.toml. TERM or INT stops the server after requests in flight have finished; a second
    signal stops it at once.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # modules do not expect a KeyboardInterrupt
    from bolide.server import logs, supervisor
    from bolide.server.process import signals

    if os.getpid() != supervisor.INIT_PID:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a parent's, which may block TERM
    stderr.open_missing()
    stderr.install()
    atexit.register(stderr.uninstall)
    flags = {name: value for name, value in given.items() if value not in (None, ())}
    options = partial(resolve, flags, "flag", config=config)
    settings = options()
    logs.configure(*settings.logging, opens_files=not check)
    defaults = {option.name: option.default for option in table()}
    if line := unread(os.environ, lambda name: getattr(settings, name) != defaults[name]):
        logs.logger.info(line)
    if check:
        _check(target, settings)
    with signals.stopping_an_import() if settings.preload else nullcontext():
        server = supervisor.Supervisor(target, settings, options)
    sys.exit(server.run(ends_process=True))


def _check(target: str, settings: Settings) -> NoReturn:
    """Find mistakes without serving, and exit. Threads that the import has left end with that."""
    from bolide.server import child
    from bolide.server.process import preload, signals

    try:
        try:
            with signals.stopping_an_import(is_check=True):
                preload.check(target, settings)
        except ConfigError as error:
            _fail(str(error))
        click.echo(f"{target} can be served: its options, files and import are right")
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    atexit._run_exitfuncs()
    child.leave(code)


command.add_command(
    ServeCommand(
        "serve",
        callback=_serve,
        help=_serve.__doc__,
        short_help="Serve an application: module:app or file.py:app.",
        params=[
            click.Argument(["target"]),
            *(_click_option(option) for option in table()),
            click.Option(["--config"], metavar="PATH", help="Configuration file. [BOLIDE_CONFIG]"),
            click.Option(
                ["--check"],
                is_flag=True,
                help="Read the options and certificates, import the application, and end: with 0 "
                "if that succeeds, otherwise with 2. No address is bound, no file written.",
            ),
        ],
    )
)


def _pair(certificate: Path | None, key: Path | None) -> tuple[bytes, bytes] | None:
    """Read a certificate and its key; None without one.

    Raises:
        ConfigError: a file cannot be read, or there is a key only.
    """
    if certificate is None:
        if key is not None:
            raise ConfigError("--key is the key of a certificate; give --certificate as well")
        return None
    try:
        return certificate.read_bytes(), (key or certificate).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None


@command.command(short_help="Serve a fixed response: a baseline for this machine.")
@click.option(
    "--host", metavar="HOST", default="127.0.0.1", help="Address to listen on. [127.0.0.1]"
)
@click.option("--port", type=PORT, default=8001, help="Port to listen on. [8001]")
@click.option("--size", type=count(0, CONTENT_BYTES_MAX), default=13, help="Bytes of content. [13]")
@click.option("-d", "--duration", type=TIME, help="Stop after this time: 10, 500ms, 30s, 2m.")
@click.option("--certificate", metavar="FILE", type=FILE, help="Use TLS with it, in PEM.")
@click.option("--key", metavar="FILE", type=FILE, help="Its key, if it is in another file.")
def ceiling(
    host: str,
    port: int,
    size: int,
    duration: float | None,
    certificate: Path | None,
    key: Path | None,
) -> None:
    """Serve one fixed response without parsing requests: a baseline for this machine.

    Clients that start with HTTP/2 get it over HTTP/2.
    """
    where = Address(host, port)
    pair = _pair(certificate, key)
    scheme = "http" if pair is None else "https"
    streams.say(f"responding without parsing on {scheme}://{where}")
    try:
        responses = _core.ceiling(host, port, size, duration, pair)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot listen on {where}: {error}") from None
    streams.say(f"responded to {responses:,} requests")


def main(arguments: Sequence[str] | None = None, *, handles_interrupt: bool = False) -> NoReturn:
    """Run the command and exit; with `handles_interrupt`, INT raises KeyboardInterrupt."""
    try:
        if handles_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command.main(arguments, prog_name="bolide", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        streams.say(error.format_message())
        sys.exit(EXIT_MISTAKE)
    except click.NoSuchOption as error:
        is_serve = error.ctx is not None and error.ctx.info_name == "serve"
        instead = advice(error.option_name) if is_serve else ""
        message = f"No such option {error.option_name!r}: {instead}" if instead else ""
        _fail(message or error.format_message().replace("\n", " "))
    except click.ClickException as error:
        _fail(error.format_message().replace("\n", " ") + _remedy(error))
    except ConfigError as error:
        _fail(str(error))
    except Error as error:
        _fail(str(error), EXIT_FAILURE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        if sys.stdout is None or not _is_of_echo(error):
            raise
        streams.discard(sys.stdout)
        _fail(f"cannot write to standard output: {error.strerror}", EXIT_FAILURE)
    sys.exit(0)


def _is_of_echo(error: OSError) -> bool:
    """Return whether it was raised while something was printed, such as the help."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and frames[-1][0].f_code is click.echo.__code__


def _remedy(error: click.ClickException) -> str:
    """Return a sentence that follows the message about a wrong command line; "" if none helps."""
    if isinstance(error, click.MissingParameter):
        name = error.param.human_readable_name if error.param is not None else ""
        return MISSING.get(name, "")
    if isinstance(error, click.BadOptionUsage):
        is_log = error.option_name == "--access-log"
        return " Give a file, or - for standard output." if is_log else ""
    context = error.ctx if isinstance(error, click.UsageError) else None
    is_serve = context is not None and context.info_name == "serve"
    if context is None or not is_serve or "unexpected extra argument" not in error.message:
        return ""
    if quoted := _unquoted(context.params, error.message):
        return f"; quote it: --path-limit {quoted}"
    return ". The address is given by --port 8001, --host, --bind or --uds."


def _unquoted(given: Mapping[str, Any], message: str) -> str:
    """Return the value of --path-limit, quoted, whose bounds were given as further arguments."""
    extra = message.partition("(")[2].rpartition(")")[0].split()
    bounds = [each for each in (str(given.get("target")), *extra) if "=" in each]
    prefix = next((each for each in given.get("path_limit") or () if "=" not in each), "")
    return shlex.quote(" ".join((prefix, *bounds))) if prefix and bounds else ""


def _fail(message: str, code: int = EXIT_MISTAKE) -> NoReturn:
    streams.say(f"bolide: error: {message}")
    sys.exit(code)
