"""The command `bolide load`: what it runs, what it prints, and its exit code.

Its flags are in `flags.py`, the options of a run in `options.py`.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bolide import streams
from bolide.errors import ConfigError
from bolide.flags import refuse_without_fleet
from bolide.load import (
    display,
    like,
    place,
    plan,
    record,
    run,
    search,
    summary,
)
from bolide.load import threshold as thresholds
from bolide.load.flags import SECTIONS, SectionedCommand
from bolide.load.options import Options
from bolide.load.place import Place
from bolide.load.requestfile import content_of
from bolide.load.threshold import Threshold
from bolide.load.verdict import has_valid_responses, sentences
from bolide.load.views import VIEWS
from bolide.load.views import ab as ab_view
from bolide.load.views.run_result import RunResult

EXIT_NOT_MET = 1
EXIT_NO_RESPONSE = 3
EXIT_INVALID = 4
EXIT_INTERRUPTED = 130
TRIAL_S = 5.0
"""How long a trial of `--find` takes without `--duration`."""
RISING = ("ok", "achieved_share")
"""Metrics that are better if they are greater, of those that `--find` accepts."""
BESIDE_LIKE = {
    "urls",
    "like",
    "threads",
    "cpus",
    "sleepless",
    "pipeline",
    "request_file",
    "expect_status",
    "expect_length",
    "expect_body",
    "expect_same",
}
"""Options that may be combined with `--like`, besides those for output."""


@click.pass_context
def _load(context: click.Context, /, **given: Any) -> None:
    """Generate load, verify every response, and report rates, latencies and errors.

    URL is http://HOST:PORT/PATH, https://..., ws://..., wss://... or unix:PATH. Several URLs of one
    server may be given; URL*3 has a weight of 3. Exit code: 0 the run is complete, whatever the
    statuses were, 1 a --require is not met, 2 a mistake in the command, 3 no valid response, 4 a
    fleet's result is not valid, 130 interrupted or terminated (after the report). docs/load.md
    explains each figure.
    """
    # `timeout`, `kill` and a terminal that is closed end it like Ctrl-C, so that no measurement is
    # lost; `nohup` ignores the latter.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    streams.forgive_errors()
    fleet = _fleet(given)
    output = {name: given.pop(name) for name in ("as_json", "as_csv", "view", "quiet", "find")}
    if sum(bool(output[name]) for name in ("as_json", "as_csv", "view")) > 1:
        raise ConfigError("--json, --csv and --view each set the output; give one of them")
    conditions = [thresholds.read(text) for text in given.pop("require")]
    view, options = _options(context, given)
    output["view"] = output["view"] or (None if output["as_json"] or output["as_csv"] else view)
    if output["find"]:
        output["find"] = _condition(options, output)
    plan.check(options)
    run_one = _find if output["find"] else _measure
    with place.opened(fleet, options) as where:
        code = run_one(options, output, conditions, where)
    sys.exit(code)


load = SectionedCommand(
    "load",
    callback=_load,
    help=_load.__doc__,
    short_help="Generate load, verify every response, and report rates.",
    params=[
        click.Argument(["urls"], nargs=-1, metavar="URL..."),
        *(option for options in SECTIONS.values() for option in options),
    ],
)


def _fleet(given: dict[str, Any]) -> place.Fleet | None:
    """Take the options of a fleet out of what was given.

    Raises:
        ConfigError: there are some without a fleet.
    """
    where = given.pop("fleet")
    secret_file, agents = given.pop("secret_file"), given.pop("agents")
    without = given.pop("without_agents")
    named = {"--secret-file": secret_file, "--agents": agents, "--without-agent": without}
    refuse_without_fleet(where, named)
    if where is None:
        return None
    return place.Fleet(where, secret_file, agents, without, given["quiet"])


def _options(context: click.Context, given: dict[str, Any]) -> tuple[str | None, Options]:
    """Make the options from the flags or another tool's command line; return its view too.

    Raises:
        ConfigError: flags contradict each other.
    """
    line = given.pop("like")
    body, file, expected = given.pop("body"), given.pop("body_file"), given.pop("expect_body")
    if body is not None and file is not None:
        raise ConfigError("--body and --body-file both set the content; give only one of them")
    given["body"] = content_of(file) if file else None if body is None else os.fsencode(body)
    given["expect_body"] = _expected_content(expected)
    given["resumes"] = not given.pop("no_resumption")
    given["is_persistent"] = not given.pop("no_keep_alive")
    given["http_version"] = _http_version(given.pop("is_http10"), given.pop("is_http2"))
    if line is None:
        return None, Options(**given)
    from_line = click.core.ParameterSource.COMMANDLINE
    typed = [
        parameter
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is from_line
    ]
    for parameter in typed:
        if parameter.name in given and parameter.name not in BESIDE_LIKE:
            name = parameter.opts[-1]
            raise ConfigError(f"{name} cannot be combined with --like, whose command sets it")
    if given["urls"]:
        url = given["urls"][0]
        raise ConfigError(f"{url!r} cannot be combined with --like, whose command has a URL")
    tool, options = like.read(line)
    names = {parameter.name or "" for parameter in typed} & BESIDE_LIKE & given.keys()
    return tool, replace(options, **{name: given[name] for name in names - {"urls"}})


def _http_version(is_http10: bool, is_http2: bool) -> str:
    if is_http10 and is_http2:
        raise ConfigError("--http1.0 and --http2 both set the version; give one of them")
    return "2" if is_http2 else "1.0" if is_http10 else "1.1"


def _expected_content(text: str | None) -> bytes | None:
    """Return the content of TEXT or @FILE."""
    if text is None:
        return None
    return content_of(Path(text[1:])) if text.startswith("@") else os.fsencode(text)


def _measure(
    options: Options, output: dict[str, Any], conditions: list[Threshold], where: Place
) -> int:
    """Run once and print the result; return the exit code."""
    server = where.find(options)
    the_plan = plan.build(options, server)
    _warn(where, the_plan)
    shown = display.choose(sys.stderr, output["quiet"])
    shared = where.shared_processors(the_plan)
    outcome = run.run(the_plan, shown, where.make_engine, options.stop_after_s)
    outcome.report["shared_processors"] = shared
    result = RunResult(outcome.report, the_plan, options, server)
    _print(result, output, conditions, where)
    return _exit_code(outcome, conditions)


def _condition(options: Options, output: dict[str, Any]) -> Threshold:
    """Return the condition of a search.

    Raises:
        ConfigError: it is no upper limit, or does not suit the other options.
    """
    threshold = thresholds.read(output["find"], "--find")
    if threshold.metric in thresholds.RATES:
        raise ConfigError(
            f"--find sets the rate itself, so {threshold.metric} is no condition; give one on a "
            "latency or on errors"
        )
    if options.requests or options.stages or options.ramp_up_s:
        raise ConfigError(
            "--find runs trials of --duration at rates of its own; "
            "leave out --requests, --stages and --ramp-up"
        )
    if output["view"] or output["as_csv"]:
        raise ConfigError("--find prints trials, not one run; leave out --view, --csv and --like")
    if threshold.sign in (">", ">=", "!=") and threshold.metric not in RISING:
        raise ConfigError(
            f"--find: {threshold.text!r} is met ever better at higher rates, so no rate is the "
            "highest; give an upper limit like 'p99 < 10ms'"
        )
    return threshold


def _find(
    options: Options, output: dict[str, Any], conditions: list[Threshold], where: Place
) -> int:
    """Search for the highest rate that meets a condition; return the exit code."""
    threshold: Threshold = output["find"]
    options = replace(options, duration_s=options.duration_s or TRIAL_S)
    server = where.find(options)
    is_terminal = sys.stderr.isatty()  # elsewhere one line per trial is enough
    shown = display.choose(sys.stderr, output["quiet"] or not is_terminal)

    def measure(rate: float) -> run.Outcome:
        return run.run(plan.build(replace(options, rate=rate), server), shown, where.make_engine)

    def show_trial(trial: search.Trial) -> None:
        if not output["quiet"]:
            click.echo(search.trial_text(trial, threshold), err=True)

    first_plan = plan.build(options, server)
    _warn(where, first_plan)
    shared = where.shared_processors(first_plan)
    start = options.rate or search.START_PER_S
    found = search.find(threshold, measure, show_trial, start, options.sleepless)
    shown_trial = found.held or found.failed or found.interrupted or found.trials[-1]
    the_plan = plan.build(replace(options, rate=shown_trial.rate_per_s), server)
    shown_trial.report["shared_processors"] = shared
    result = RunResult(shown_trial.report, the_plan, options, server)
    _print(result, output, conditions, where, find=search.as_data(found))
    if not output["as_json"]:
        _echo("\n" + "\n".join(search.result_text(found)))
    return _exit_code_of_search(found, conditions)


def _warn(where: Place, the_plan: dict[str, Any]) -> None:
    for sentence in where.warnings(the_plan):
        click.echo(f"note: {sentence}", err=True)


def _exit_code_of_search(found: search.Search, conditions: list[Threshold]) -> int:
    """Report on standard error what ended it early; return the exit code."""
    if found.ended:
        click.echo(f"bolide: the search ended: {found.ended}", err=True)
    if found.was_interrupted:
        return EXIT_INTERRUPTED
    is_invalid = bool(found.ended or found.unmeasured)
    if found.held:
        code = _exit_code(run.Outcome(found.held.report), conditions)
        return code or (EXIT_INVALID if is_invalid else 0)
    if not any(has_valid_responses(trial.report) for trial in found.trials):
        return EXIT_NO_RESPONSE
    return EXIT_INVALID if is_invalid else EXIT_NOT_MET


def _print(
    result: RunResult,
    output: dict[str, Any],
    conditions: list[Threshold],
    where: Place,
    **more: Any,
) -> None:
    """Print the requested output; warnings go to standard error if programs read the output."""
    if output["as_json"]:
        _echo(record.as_json(result.report, result.plan, conditions, **more))
        return
    if not output["as_csv"] and not output["view"]:
        lines = where.lines(result.report)
        page = summary.page(result.report, result.plan, result.destination, lines)
        _echo(page)
        return
    page = VIEWS[output["view"]](result) if output["view"] else ""
    _echo(page or record.as_csv(result.report, result.plan))
    for sentence in sentences(result.report, result.plan):
        click.echo(f"note: {sentence}", err=True)
    if result.options.percentiles_file:
        _write(result.options.percentiles_file, ab_view.percentiles_csv(result))


def _echo(text: str) -> None:
    streams.show(display.drawable(text, sys.stdout) if sys.stdout else text, "the report")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _exit_code(outcome: run.Outcome, conditions: list[Threshold]) -> int:
    """Report on standard error which conditions are not met; return the exit code."""
    if outcome.was_interrupted:
        return EXIT_INTERRUPTED
    missed = [each for each in conditions if not each.is_met(outcome.report)]
    for each in missed:
        value = each.value_text(outcome.report)
        click.echo(f"bolide: not met: {each.text!r}: {value}", err=True)
    if not has_valid_responses(outcome.report):
        return EXIT_NO_RESPONSE
    if missed:
        return EXIT_NOT_MET
    return EXIT_INVALID if outcome.report.get("invalid") else 0
