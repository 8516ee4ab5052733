"""The flags of all commands have one vocabulary: a name has one form, and a meaning one name."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from bolide import cli, flags

SYNONYMS = {"--seconds", "--time", "--path", "--concurrency", "--output", "--silent", "--url"}
"""Other tools' names of what is called --duration, --target, --connections, --out and --quiet."""
OF_ITS_OWN = {("race run", "--cpus")}
"""A race has processors for the server and for the load."""


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli.command)
    for name in ("load", "race", "ceiling", "doctor"):
        found = cli.command.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            for part in found.list_commands(context):
                command = found.get_command(context, part)
                assert command is not None
                yield f"{name} {part}", command
        else:
            yield name, found


def options() -> Iterator[tuple[str, click.Option, str]]:
    """Return each option with its command and its form: all names and the metavar."""
    for name, command in commands():
        context = click.Context(command)
        for each in command.params:
            if isinstance(each, click.Option):
                value = "" if each.is_flag else each.make_metavar(context)
                yield name, each, f"{', '.join(each.opts)} {value}".strip()


def test_a_flag_has_the_same_form_in_every_command() -> None:
    forms: dict[str, dict[str, str]] = {}
    for command, option, form in options():
        name = max(option.opts, key=len)
        if (command, name) not in OF_ITS_OWN:
            forms.setdefault(name, {})[command] = form
    assert {name: found for name, found in forms.items() if len({*found.values()}) > 1} == {}
    assert {*forms["--duration"]} == {"load", "race run", "ceiling"}
    assert {*forms["--quiet"]} == {"load", "race run"}
    assert {*forms["--target"]} == {"load", "race run"}
    assert {*forms["--connections"]} == {"load", "doctor"}
    assert {*forms["--json"]} == {"load", "race list", "race compare", "doctor"}


def test_a_meaning_has_one_name() -> None:
    assert [form for _, option, form in options() if SYNONYMS & {*option.opts}] == []


def test_a_metavar_says_what_to_give() -> None:
    found = [(command, form) for command, option, form in options() if not option.hidden]
    assert [each for each in found if each[1].endswith(("INTEGER", "RANGE", "FLOAT", "TEXT"))] == [
        ("load", "--body TEXT")
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (flags.TIME, "500ms", 0.5),
        (flags.TIME, "2m", 120),
        (flags.count(), "10k", 10_000),
        (flags.count(0), "0", 0),
        (flags.PORT, "65535", 65_535),
        (flags.PERCENT, "2%", 0.02),
        (flags.PERCENT, "0.5", 0.005),
        (flags.NAMES, "a,b c*", ("a", "b", "c*")),
    ],
)
def test_what_a_flag_accepts(kind: click.ParamType, text: str, value: object) -> None:
    assert kind.convert(text, None, None) == value


PERCENTAGE = "is not a percentage; give one above 0 and below 100, like 2%"


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (flags.TIME, "0", "is zero; leave the option out"),
        (flags.TIME, "1d", "is not a duration; give one like 10, 500ms, 30s or 2m"),
        (flags.count(most=1000), "2k", "is more than 1,000"),
        (flags.count(5), "4", "is less than 5"),
        (flags.count(), "-1", "is not a whole number; give one like 100, 10000 or 10k"),
        (flags.PORT, "0", "is zero; leave the option out"),
        (flags.PERCENT, "0", PERCENTAGE),
        (flags.PERCENT, "100%", PERCENTAGE),
    ],
)
def test_what_a_flag_refuses(kind: click.ParamType, text: str, why: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(text, None, None)
    assert refused.value.message == f"{text!r} {why}"
