"""What a new process believes that an old one has passed to it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.server.process import takeover, upgrade

REFUSED = "BOLIDE_INHERITED is set by the server itself when it is upgraded; unset it"


@pytest.fixture
def passed() -> Iterator[dict[str, Any]]:
    """Return what this process would pass to a new one."""
    ours, theirs = upgrade.pair()
    found = {"pid": os.getpid(), "fd": theirs.detach(), "number": 3, "began_unix_s": 1.5}
    yield {**found, "listeners": [[3, "/a"]], "redirecting": [[4, ""]], "management": []}
    ours.close()
    os.close(found["fd"])


def inherited(passed: dict[str, Any], **environ: str) -> takeover.Inherited | None:
    given = {upgrade.VARIABLE: json.dumps(passed), **environ}
    try:
        return takeover.inherited(given, "https")
    finally:
        assert upgrade.VARIABLE not in given
        environ.update(given)


@pytest.fixture
def as_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be one that it has started itself."""
    monkeypatch.setattr(os, "getppid", os.getpid)


def test_nothing_is_inherited_without_the_variable() -> None:
    assert takeover.inherited({}, "http") is None


@pytest.mark.usefixtures("as_child")
def test_what_is_inherited(passed: dict[str, Any]) -> None:
    environ = {upgrade.VARIABLE: json.dumps(passed), "WATCHDOG_PID": str(os.getpid())}
    os.set_inheritable(passed["fd"], True)
    found = takeover.inherited(environ, "https")
    assert found is not None
    assert [(each.fd, each.path, each.scheme) for each in found.addresses] == [(3, "/a", "https")]
    assert [(each.fd, each.scheme) for each in found.redirecting] == [(4, "http")]
    assert (found.pid, found.number, found.began_unix_s) == (os.getpid(), 3, 1.5)
    assert environ == {"WATCHDOG_PID": str(os.getpid())}
    assert not found.socket.get_inheritable() and not found.socket.getblocking()
    found.socket.detach()


def test_a_process_that_is_not_the_parent_is_not_believed(passed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        inherited(passed)
    os.fstat(passed["fd"])  # it may be the descriptor of something else, and stays open


@pytest.mark.usefixtures("as_child")
def test_the_socket_of_another_process_is_not_believed(passed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        inherited({**passed, "pid": 1})


@pytest.mark.usefixtures("as_child")
def test_a_socket_of_another_kind_is_not_believed(passed: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(ConfigError, match=REFUSED):
            inherited({**passed, "fd": other.fileno()})
        assert other.getsockname()


@pytest.mark.parametrize("text", ["x", "{}", "[]", '{"pid": 1, "listeners": 3}'])
def test_the_variable_is_no_option(text: str) -> None:
    environ = {upgrade.VARIABLE: text}
    with pytest.raises(ConfigError, match=REFUSED):
        takeover.inherited(environ, "http")
    assert not environ
