"""What the command says about other servers' options is what the guide for migration says."""

import re
from pathlib import Path

import pytest

from bolide.config.foreign import (
    ADVICE,
    KEYS,
    NAMES,
    PREFIXES,
    RARE,
    advice,
    advice_for,
    unread,
)
from bolide.config.settings import table

PAGE = Path(__file__).parents[2] / "docs/guide/migrate.md"
SERVERS = ("uvicorn", "gunicorn", "Granian", "Hypercorn")
OURS = {option.flag for option in table()} | {"--check", "--config", "--no-server-header"}
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
    assert missing == []


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
        ("wsgi_app", "name the application in the command: `bolide serve MODULE:APP`"),
        ("raw_env", "set the environment in the shell or the service manager"),
        ("post_fork", "use [on_worker_start] MODULE:FUNCTION"),
        ("when_ready", "[on_worker_start] is for each worker"),
        ("worker_int", "use atexit in the application, or its shutdown"),
        ("ssl_context", "use [certificate] and [key]"),
        ("secure_scheme_headers", "X-Forwarded-Proto of [trusted_proxies] says the scheme"),
        ("syslog", "messages go to standard error"),
        ("reload_extra_files", "use [reload_include], with a pattern"),
        ("sendfile", "wsgi.file_wrapper is the application's choice"),
        ("tmp_upload_dir", "[spool_directory] is for responses"),
        ("log_file", "messages go to standard error"),
        ("reload_engine", "leave it out: watchfiles looks for changes"),
        ("env_file", "set -a; . ./FILE in the shell"),
        ("prot", ""),
        ("web_concurrency", "use [workers]"),
        ("no_use_colors", "leave it out: only a terminal gets colours"),
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


def test_what_no_page_has_names_our_options() -> None:
    texts = [*RARE.values(), *KEYS.values()]
    assert {name for text in texts for name in re.findall(r"--[a-z][a-z-]*", text)} <= OURS
    assert not RARE.keys() & ADVICE.keys()


BOTH = {"WEB_CONCURRENCY": "4", "FORWARDED_ALLOW_IPS": "*"}


@pytest.mark.parametrize(
    ("environ", "given", "line"),
    [
        (
            BOTH,
            (),
            "WEB_CONCURRENCY and FORWARDED_ALLOW_IPS are not read: use --workers or "
            "BOLIDE_WORKERS, and --trusted-proxies or BOLIDE_TRUSTED_PROXIES",
        ),
        (
            BOTH,
            ("trusted_proxies",),
            "WEB_CONCURRENCY is not read: use --workers or BOLIDE_WORKERS",
        ),
        (BOTH, ("trusted_proxies", "workers"), ""),
        ({"WEB_CONCURRENCY": "1", "FORWARDED_ALLOW_IPS": ""}, (), ""),
        ({}, (), ""),
        (
            {"WEB_CONCURRENCY": "4", "GUNICORN_CMD_ARGS": "-w 4", "UVICORN_PORT": "80"},
            (),
            "WEB_CONCURRENCY is not read: use --workers or BOLIDE_WORKERS; GUNICORN_CMD_ARGS and "
            "UVICORN_PORT are not read: use the options of `bolide serve`",
        ),
        ({"UVICORN_SERVICE_PORT": "80", "UVICORN_PORT": "tcp://10.0.0.1:80"}, (), ""),
    ],
)
def test_variables_of_other_servers_that_are_not_read(
    environ: dict[str, str], given: tuple[str, ...], line: str
) -> None:
    assert unread(environ, lambda name: name in given) == line
