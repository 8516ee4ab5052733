"""How `bolide reload` and `upgrade` wait: for their own end, and for a process that is replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bolide.errors import Error
from bolide.manage import command
from bolide.manage.status import Status, read

NUMBER = "4"
"""Of the reload that is asked for."""


def with_results(**results: str) -> dict[str, Any]:
    return {
        "begun": 9,
        "results": {name.removeprefix("number_"): it for name, it in results.items()},
    }


FIRST = {
    "pid": 1,
    "start_time_s": 10.5,
    "workers": [],
    "reloads": with_results(number_2="failed", number_3="completed"),
}


class Replaying:
    """A client whose server has one status after the other; the last one remains."""

    def __init__(self, *statuses: dict[str, Any]) -> None:
        self._statuses = list(statuses)
        self.commands: list[str] = []

    def status(self) -> Status:
        now = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return read(json.dumps(now).encode())

    def command(self, name: str) -> str:
        self.commands.append(name)
        return NUMBER


def reload(monkeypatch: pytest.MonkeyPatch, client: Replaying, *options: str) -> Result:
    monkeypatch.setattr(command, "_client", lambda *_: client)
    result = CliRunner().invoke(command.reload, options)
    assert client.commands == ["reload"]
    return result


def test_it_ends_with_the_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    after = {**FIRST, "reloads": with_results(number_4="completed", number_5="failed")}
    result = reload(monkeypatch, Replaying(FIRST, FIRST, after))
    assert (result.exit_code, result.output) == (0, "reloaded\n")


def test_it_does_not_end_with_another_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**FIRST, "reloads": with_results(number_3="completed", number_5="completed")}
    after = {**FIRST, "reloads": with_results(number_4="failed", number_5="completed")}
    result = reload(monkeypatch, Replaying(FIRST, other, other, after))
    assert str(result.exception) == "the reload has failed; the server's log says why"


def test_a_stop_that_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_client", lambda *_: Replaying(FIRST))
    result = CliRunner().invoke(command.stop, ["--timeout", "200ms"])
    assert isinstance(result.exception, Error)
    assert str(result.exception).startswith(
        "the stop has not ended within 0.2 s, and continues; see"
    )


def test_a_reload_that_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = reload(monkeypatch, Replaying(FIRST), "--timeout", "200ms")
    assert isinstance(result.exception, Error)
    assert str(result.exception) == (
        "the reload has not ended within 0.2 s, and continues; see `bolide status` and the "
        "server's "
        "log, or raise --timeout"
    )


@pytest.mark.parametrize("other", [{"pid": 2}, {"start_time_s": 99.0}])
def test_a_process_that_takes_over_is_reported(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    after = {**FIRST, **other, "reloads": with_results()}
    result = reload(monkeypatch, Replaying(FIRST, after))
    assert isinstance(result.exception, Error)
    assert str(result.exception).startswith("another process has taken over during the reload")


OLD = {**FIRST, "upgrades": with_results(number_3="failed"), "took_over": None}
NEW = {
    **FIRST,
    "pid": 2,
    "start_time_s": 99.0,
    "upgrades": with_results(),
    "took_over": {"pid": 1, "start_time_s": 10.5, "upgrade": NUMBER},
}


def upgrade(monkeypatch: pytest.MonkeyPatch, client: Replaying, *options: str) -> Result:
    monkeypatch.setattr(command, "_client", lambda *_: client)
    result = CliRunner().invoke(command.upgrade, options)
    assert client.commands == ["upgrade"]
    return result


def test_an_upgrade_ends_with_the_process_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = upgrade(monkeypatch, Replaying(OLD, OLD, OLD, NEW))
    text = "upgraded: process 2 serves, and process 1 drains\n"
    assert (result.exit_code, result.output) == (0, text)
    assert upgrade(monkeypatch, Replaying(OLD), "--no-wait").output == "upgrading\n"


def test_an_upgrade_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {**OLD, "upgrades": with_results(number_4="failed")}
    result = upgrade(monkeypatch, Replaying(OLD, OLD, failed))
    text = "the upgrade has failed, and the old process goes on; the log says why"
    assert str(result.exception) == text


@pytest.mark.parametrize("other", [{"pid": 3}, {"start_time_s": 9.0}, {"upgrade": "5"}])
def test_a_process_of_another_origin_is_no_success(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    for origin in (None, {**NEW["took_over"], **other}):
        result = upgrade(monkeypatch, Replaying(OLD, {**NEW, "took_over": origin}))
        assert "another process serves now, which this upgrade has not" in str(result.exception)


def test_an_upgrade_that_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = upgrade(monkeypatch, Replaying(OLD), "--timeout", "200ms")
    assert str(result.exception).startswith("the upgrade has not ended within 0.2 s, and continues")


@pytest.mark.parametrize("of", [reload, upgrade])
def test_a_server_that_does_not_say_what_becomes_of_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, of: Callable[..., Result]
) -> None:
    result = of(monkeypatch, Replaying({"workers": []}))
    what = of.__name__
    assert isinstance(result.exception, Error)
    assert str(result.exception) == (
        f"the server has accepted the {what}, but does not say what becomes of it; "
        "is it of another version? see its log, or use --no-wait"
    )
