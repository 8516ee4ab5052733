"""The command `bolide race`: its flags. What they do is imported on first use."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bolide import streams
from bolide.errors import ConfigError, Error
from bolide.flags import (
    FOLDER,
    NAMES,
    PERCENT,
    TIME,
    count,
    fleet_options,
    refuse_without_fleet,
)
from bolide.lab.ending import terminable
from bolide.lazy_group import LazyGroup

if TYPE_CHECKING:
    from bolide.lab.plan.fleet import Joined
    from bolide.lab.plan.user_application import UserApplication
    from bolide.lab.record.schema import Study, Trial
    from bolide.lab.report.summary import Race as RaceResults

EXIT_BELOW = 1
"""A row of the study is below its bar."""
EXIT_INTERRUPTED = 130
FLOOR_STUDY = "pipelining"
"""The study of --aa, if none is named."""
FLOOR_CONTESTANTS = ("ceiling", "bolide-native")
"""Its contestants, if none are named."""
OF_THE_EXTRA = {"rich": "rich", "bolide_lab": "bolide-lab"}
"""Packages that no race does without, and their distributions."""
ASKS_FOR_HELP = "bolide.lab.asks_for_help"
"""In the context: whether the help of a subcommand is all that is wanted."""
LAZY = {
    "compare": "bolide.lab.report.command",
    "report": "bolide.lab.report.command",
}
"""Subcommands, and the modules that define them."""


class Race(LazyGroup):
    """The commands of `bolide race`; any other first word is a study to run."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Put `run` before a study or an option."""
        first = arguments[0] if arguments else "--help"
        if first not in self.list_commands(context) and first not in ("-h", "--help"):
            arguments = ["run", *arguments]
        context.meta[ASKS_FOR_HELP] = bool({"-h", "--help"} & {*arguments})
        return super().parse_args(context, arguments)


@click.group(cls=Race, lazy=LAZY, short_help="Measure HTTP servers side by side.")
@click.pass_context
def race(context: click.Context) -> None:
    """Measure HTTP servers side by side: bolide race STUDY, or --app module:app.

    The responses of every server are verified before it is measured. Servers are restarted for each
    trial, and rounds run them in shuffled order. `bolide race list` shows servers and studies,
    `bolide race run --help` the options of a race.
    """
    if context.meta[ASKS_FOR_HELP]:  # which needs nothing of the extra
        return
    streams.forgive_errors()
    streams.forgive_output("the results")
    for package, distribution in OF_THE_EXTRA.items():
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"{distribution} is missing; pip install 'bolide[lab]'")
    own, of_apps = _version("bolide"), _version("bolide-lab")
    if own and of_apps and own != of_apps:
        raise ConfigError(
            f"bolide-lab {of_apps} is not of Bolide {own}; pip install 'bolide[lab]=={own}'"
        )


def _version(distribution: str) -> str | None:
    """Return the version of an installed distribution; None in a checkout."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@race.command("list", short_help="Show contestants, tools and studies.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--how", "name", metavar="NAME", help="Show how NAME is installed and started.")
def show_list(as_json: bool, name: str | None) -> None:
    """Show the contestants and tools, whether they can run here, and the studies."""
    import msgspec

    from bolide.lab import inventory
    from bolide.lab.plan import contestant, environments
    from bolide.lab.race import describe
    from bolide.lab.tools import TOOLS

    if name is not None:
        click.echo("\n".join(inventory.instructions([name])))
        return
    found = [describe(each, environments.examine(each)) for each in contestant.own().values()]
    tools = [inventory.state_of(each) for each in TOOLS.values()]
    studies = inventory.studies()
    if as_json:
        for each in (*found, *tools, *studies):
            click.echo(msgspec.json.encode(each))
        return
    from bolide.lab.display import console, contestants_table, tools_table

    terminal = console()
    terminal.print(contestants_table(found))
    terminal.print()
    terminal.print(tools_table(tools))
    terminal.print()
    for entry in studies:
        terminal.print(f"study {entry.name}: {entry.title}", markup=False)


@race.command("setup", short_help="Install contestants and load generators.")
@click.argument("names", nargs=-1)
@click.option("--system", is_flag=True, help="Also install packages with apt-get, as root.")
def set_up(names: tuple[str, ...], system: bool) -> None:
    """Install contestants and load generators: all, or those named (NAME or PREFIX*).

    No service of a package is started or enabled.
    """
    from bolide.lab import inventory
    from bolide.lab.plan import environments, packages

    contestants, tools = inventory.chosen(names)
    needed = packages.lacking(contestants, tools)
    if needed:
        click.echo(f"from the distribution: {environments.apt_line(needed)}")

    def say(text: str) -> None:
        click.echo(text, err=True)

    failed = inventory.set_up(contestants, tools, is_system=system, say=say)
    left = inventory.missing(contestants, tools)
    for line in left:
        click.echo(line)
    ready = len(contestants) + len(tools) - len(left)
    click.echo(f"{ready} of {len(contestants) + len(tools)} contestants and tools are ready")
    if failed:
        raise Error(f"{failed} could not be set up; see the reasons above")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Exit with EXIT_INTERRUPTED and a line when asked to end before the first trial."""
    with terminable():
        try:
            yield
        except KeyboardInterrupt:
            click.echo("stopped early", err=True)
            sys.exit(EXIT_INTERRUPTED)


@race.command("run")
@click.argument("study", required=False)
@click.option("--app", metavar="TARGET", help="Measure your own application on every server.")
@click.option(
    "--interface",
    type=click.Choice(["asgi", "wsgi", "native"]),
    help="Interface of --app. [detected]",
)
@click.option("--target", metavar="PATH", help="Request target for --app. [/]")
@click.option("--only", type=NAMES, default=(), help="Only these contestants (NAME or PREFIX*).")
@click.option("--workload", type=NAMES, default=(), help="Only these workloads.")
@click.option(
    "--tool", type=NAMES, default=(), help="Load generators. [the study's; bolide for --app]"
)
@click.option("--quick", is_flag=True, help="One round of one-second trials of fewer workloads.")
@click.option("--rounds", type=count(most=1000), help="Number of rounds. [the study's]")
@click.option(
    "--until",
    type=PERCENT,
    help="More rounds until the intervals of all rates are within it, such as 2%.",
)
@click.option(
    "--aa",
    "is_doubled",
    is_flag=True,
    help="Run each contestant twice, to measure by how much equal ones differ here.",
)
@click.option("-d", "--duration", type=TIME, help="Duration of a trial: 5, 500ms. [the study's]")
@click.option(
    "--cpus",
    nargs=2,
    metavar="server=LIST load=LIST",
    help="Processors for each. [server=the first (or as many as the study says), load=the others]",
)
@click.option("--out", type=FOLDER, help="Folder for the results.")
@click.option("--resume", is_flag=True, help="Resume the race in --out.")
@click.option("--seed", type=count(0), default=0, help="Seed of the shuffled order. [0]")
@click.option("--quiet", is_flag=True, help="Do not show progress.")
@click.option(
    "--server-address",
    metavar="ADDRESS",
    help="Address of this machine that the agents of --fleet load. [127.0.0.1 for local:N]",
)
@_stoppable()
def run_race(study: str | None, app: str | None, **given: Any) -> None:
    """Run a study: by name, or a file of your own.

    Ctrl-C ends it early and keeps what has been measured; --resume continues it. The exit code is 1
    if a row of a study with bars (bench, bench-servers) is below its bar.
    """
    from bolide.lab import race as races
    from bolide.lab.display import Terminal, show_results
    from bolide.lab.record import journal, schema
    from bolide.lab.report.summary import gather
    from bolide.lab.visible import shown

    if study is None and app is None and given["is_doubled"]:
        study = FLOOR_STUDY
    if (study is None) == (app is None):
        raise ConfigError("name a study (bolide race list) or an application (--app module:app)")
    if app is None and (given["interface"] or given["target"] is not None):
        raise ConfigError("--interface and --target apply to --app only; a study has its own")
    if given["resume"] and given["out"] is None:
        raise ConfigError("--resume needs the folder of the race; name it with --out")
    if study is not None:
        _refuse_word(study)
    server_cpus, load_cpus = cpus_of(given["cpus"], processors_of(study))
    fleet = _joined(given, server_cpus, load_cpus)
    planned = _planned(study, app, fleet, len(load_cpus), given)
    plan = planned.study
    out = given["out"] or Path("race-results") / f"{plan.name}-{datetime.now():%Y%m%d-%H%M%S}"
    options = races.Options(
        out=out,
        server_cpus=server_cpus,
        load_cpus=load_cpus,
        only=given["only"] or (FLOOR_CONTESTANTS if given["is_doubled"] else ()),
        workloads=planned.workloads,
        is_quick=given["quick"],
        resumes=given["resume"],
        seed=given["seed"],
        application=planned.application,
        notes=planned.notes,
        is_doubled=given["is_doubled"],
        until=given["until"],
        fleet=fleet,
    )
    terminal = Terminal(is_quiet=given["quiet"])
    try:
        is_whole = races.run(plan, planned.names, options, terminal)
    finally:
        terminal.stop()
    records = journal.read(out)
    trials = [each for each in records if isinstance(each, schema.Trial)]
    gathered = gather(map(shown, records))
    show_results(gathered, terminal.console)
    if gathered.floor is not None:
        click.echo(f"floor:   equal servers differed by up to {gathered.floor:.1%}")
        if doubt := gathered.floor_doubt:
            click.echo(f"         do not rely on it: {doubt}")
        click.echo(f"         bolide race compare A B --floor {out} ignores smaller changes")
    click.echo(f"results: {out / journal.FILE_NAME}")
    click.echo(f"report:  bolide race report {out}")
    if not is_whole:
        click.echo(f"stopped early; continue with --resume --out {out}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    _refuse_without_figures(records, trials)
    _report_below(gathered)


run_race.params.extend(fleet_options())


def _joined(
    given: dict[str, Any], server_cpus: tuple[int, ...], load_cpus: tuple[int, ...]
) -> Joined | None:
    """Return the agents that generate the load; None without --fleet.

    Raises:
        ConfigError: there are options for a fleet without one, or the fleet cannot be used.
    """
    flags = ("--secret-file", "--agents", "--without-agent", "--server-address")
    names = ("secret_file", "agents", "without_agents", "server_address")
    others = {flag: given[name] for flag, name in zip(flags, names, strict=True)}
    where = given["fleet"]
    refuse_without_fleet(where, others)
    if where is None:
        return None
    from bolide.lab.plan.fleet import server_address
    from bolide.lab.tools.fleet import Fleet
    from bolide.lab.trial.joining import joined

    refused = [each for each in given["tool"] if each != "bolide"]
    if refused:
        raise ConfigError(
            f"--tool: {', '.join(refused)} cannot generate the load of a fleet; leave out --tool"
        )
    address = server_address(where, given["server_address"])
    fleet = Fleet(where, given["agents"], given["secret_file"], given["without_agents"])
    return joined(fleet, address, server_cpus, load_cpus)


def _refuse_word(word: str) -> None:
    """Reject a word that names no study, but is an application or nearly a command or a study.

    Raises:
        ConfigError: it is.
    """
    from difflib import get_close_matches

    from bolide.lab.plan import study

    if word in study.names():
        return
    if ":" in word or word.endswith(".py") or os.path.isfile(f"{word}.py"):
        raise ConfigError(f"no study {word!r}; did you mean `bolide race --app {word}`?")
    known = [*race.commands, *LAZY, *study.names()]
    if near := get_close_matches(word, known, n=1):
        raise ConfigError(f"no study {word!r}; did you mean `bolide race {near[0]}`?")


def _report_below(gathered: RaceResults) -> None:
    """Exit with EXIT_BELOW if a row of a study is below its bar."""
    from bolide.lab.report.requirement.judgement import below

    if rows := [row for result in gathered.results for row in below(result)]:
        click.echo(f"below the bar: {'; '.join(rows)}", err=True)
        sys.exit(EXIT_BELOW)


def _refuse_without_figures(records: Sequence[Any], trials: Sequence[Trial]) -> None:
    """Reject a race that measured no server.

    Raises:
        Error: no trial has a figure, or only trials of the ceiling, which is the baseline.
    """
    from bolide.lab.record.schema import Contestant

    contestants = [each for each in records if isinstance(each, Contestant)]
    servers = {each.name for each in contestants if each.role == "server"}
    if all(each.failure for each in trials):
        raise Error("no trial has a figure; see the failures above and in the results")
    if servers and all(each.failure for each in trials if each.contestant in servers):
        remedy = "see the failures above, and `bolide race list` for what needs set-up"
        raise Error(f"no contestant except the ceiling has a figure; {remedy}")


@dataclass(frozen=True)
class _Planned:
    """What a race runs."""

    study: Study
    names: tuple[str, ...]
    """The contestants."""
    application: UserApplication | None
    workloads: tuple[str, ...]
    """The wanted workloads; all if empty."""
    notes: tuple[str, ...]
    """What was changed in the study, and why."""


def _planned(
    name: str | None, app: str | None, fleet: Joined | None, load_cores: int, given: dict[str, Any]
) -> _Planned:
    """Return the study as requested, with loads that can be generated here, or by a fleet."""
    from bolide.lab.plan import study, substitute, user_application

    if app is not None:
        plan = study.of_application(app, given["target"] or "/")
        application = user_application.find(app, given["interface"])
        names: tuple[str, ...] = ()
    else:
        is_elsewhere = fleet is not None and not fleet.fleet.is_local
        cores = fleet.threads_all if fleet is not None and is_elsewhere else load_cores
        loaded = study.load(name or "", cores)
        plan, names, application = loaded.study, loaded.contestants, None
    chosen, wanted = given["tool"], given["workload"]
    if chosen:
        plan, notes = study.by_tools(plan, chosen, wanted or ("*",))
    elif fleet is None:
        plan, wanted, notes = substitute.with_tool(plan, wanted, _is_installed)
    else:
        notes = []
    if fleet is not None:
        plan, wanted, notes = _of_fleet(plan, wanted, fleet, notes)
    if given["quick"]:
        whole, plan = plan, study.shortened(plan, None if chosen else _is_installed)
        if left := substitute.skipped(whole, plan):
            notes.append(f"--quick skips {', '.join(left)}")
    plan = study.lengthened(plan, given["rounds"], given["duration"])
    return _Planned(plan, names, application, wanted, tuple(notes))


def _of_fleet(
    plan: Study, wanted: tuple[str, ...], fleet: Joined, notes: list[str]
) -> tuple[Study, tuple[str, ...], list[str]]:
    """Return a study with the loads that a fleet generates; its record has the remarks too."""
    import msgspec

    from bolide.lab.plan.fleet import fitting

    plan, wanted, more = fitting(plan, wanted, fleet)
    every = [*notes, *more]
    return msgspec.structs.replace(plan, remarks=tuple(every)), wanted, every


def _is_installed(tool: str) -> bool:
    from bolide.lab import tools

    return tools.find(tool).version() is not None


def processors_of(name: str | None) -> int:
    """Return how many processors the workloads of a study give to the server; 1 for no study."""
    from bolide.lab.plan import study

    if name is None:
        return 1
    return max(each.processors or 1 for each in study.load(name).study.workloads)


def cpus_of(
    given: tuple[str, str] | None, wanted: int = 1
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the processors of the server and of the load generator.

    Without `given` the server gets as many as are wanted if as many are left for the load.

    Raises:
        ConfigError: this process may not run on them.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if given is None:
        number = wanted if len(allowed) >= 2 * wanted else 1
        return tuple(allowed[:number]), tuple(allowed[number:]) or (allowed[0],)
    found = dict(text.partition("=")[::2] for text in given)
    if found.keys() != {"server", "load"}:
        raise ConfigError("--cpus needs both: --cpus server=0 load=1")
    both = tuple(_processors(found[name], allowed) for name in ("server", "load"))
    return both[0], both[1]


def _processors(text: str, allowed: list[int]) -> tuple[int, ...]:
    try:
        bounds = [part.partition("-") for part in text.split(",")]
        ranges = [range(int(low), int(high or low) + 1) for low, _, high in bounds]
    except ValueError:
        raise ConfigError(f"{text!r} is not a list of processors, such as 0,2-3") from None
    found = [[cpu for cpu in allowed if cpu in each] for each in ranges]
    pairs = zip(found, ranges, strict=True)
    if any(not cpus or len(cpus) < each.stop - each.start for cpus, each in pairs):
        raise ConfigError(f"processors {text} are not all among {', '.join(map(str, allowed))}")
    return tuple(sorted({cpu for cpus in found for cpu in cpus}))
