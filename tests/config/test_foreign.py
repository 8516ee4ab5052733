"""What the command says about other servers' options is what the guide for migration says."""

import re
from pathlib import Path

import pytest

from bolide.config.foreign import ADVICE, NAMES, PREFIXES, advice, advice_for
from bolide.config.settings import table

PAGE = Path(__file__).parents[2] / "docs/guide/migrate.md"
SERVERS = ("uvicorn", "gunicorn", "Granian", "Hypercorn")
OURS = {option.flag for option in table()} | {"--config", "--no-server-header"}
FLAG = re.compile(r"`(--?[a-zA-Z][\w-]*)")
SHORT = re.compile(r"-[a-zA-Z]")
COVERED = ("uvicorn", "gunicorn")
"""Servers whose long options all have an advice."""


def rows() -> list[tuple[str, str, str]]:
    """Return server, option, and the rest of its row."""
    found, server = [], ""
    for line in PAGE.read_text().splitlines():
        server = line.removeprefix("## ") if line.startswith("## ") else server
        if server in SERVERS and line.startswith("| "):
            option, rest = line.removeprefix("| ").split(" | ", 1)
            found += [(server, flag, rest) for flag in FLAG.findall(option)]
    return found


ROWS = rows()


@pytest.mark.parametrize("flag", [*ADVICE, *PREFIXES])
def test_an_advice_is_that_of_the_guide(flag: str) -> None:
    rests = [rest for _, option, rest in ROWS if option == flag]
    if flag in ("--max-requests-", "--limit-max-requests-"):  # `...-jitter` there
        rests = [rest for _, option, rest in ROWS if option == flag.removesuffix("-")]
    assert rests, "the guide does not have it"
    text = advice(flag)
    named = re.findall(r"--[a-z][\w-]*", re.sub("`.*`", "", text))  # without other commands
    if flag not in ("--fd", "-p", "-w"):  # "no" and "the same names" there
        assert all(any(name in rest for rest in rests) for name in named)
    assert all(name in OURS for name in named)
    says_not_yet = any(rest.startswith("not yet") for rest in rests)
    assert (" yet" in text) <= says_not_yet
    if all(rest.startswith("not yet") for rest in rests):
        assert " yet" in text


def test_options_of_the_most_common_servers_have_an_advice() -> None:
    missing = [
        flag
        for server, flag, _ in ROWS
        if server in COVERED and flag not in OURS and not SHORT.fullmatch(flag) and not advice(flag)
    ]
    rare = {"--asgi-disconnect-grace-period", "--control-socket", "--dirty-"}
    assert {*missing} == rare


def test_our_own_options_have_none() -> None:
    assert not [flag for flag in OURS if advice(flag)]


def test_an_unknown_option_has_none() -> None:
    assert advice("--prot") == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("error_logfile", "messages go to standard error"),
        ("proxy_headers", "[trusted_proxies] names them"),
        ("worker_class", "leave it out: the interface is detected"),
        ("limit_request_field_size", "use [header_section_bytes_max]"),
        ("keepalive", "use [keep_alive_timeout_ms], in milliseconds"),
        ("fd", "use [bind] fd:N"),
        ("reload_delay", "leave it out: changes are looked for all the time"),
        ("prot", ""),
    ],
)
def test_a_keyword_is_advised_with_the_names_of_keywords(name: str, text: str) -> None:
    found = advice_for(name, lambda option: f"[{option}]")
    assert text in found
    assert bool(text) == bool(found)


def test_a_name_that_is_not_a_flag_stands_for_one() -> None:
    assert [name for name, flag in NAMES.items() if not advice(flag)] == []


def test_our_own_keywords_have_none() -> None:
    assert not [option.name for option in table() if advice_for(option.name, str)]
