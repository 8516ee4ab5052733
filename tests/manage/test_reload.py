"""How `bolide reload` waits: for a reload that hangs, and for a process that is replaced."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from bolide.errors import Error
from bolide.manage import command

FIRST = {"pid": 1, "start_time_s": 10.5, "workers": [], "reloads": {"completed": 3, "failed": 1}}


class Replaying:
    """A client whose server has one status after the other; the last one remains."""

    def __init__(self, *statuses: dict[str, Any]) -> None:
        self._statuses = list(statuses)
        self.commands: list[str] = []

    def status(self) -> dict[str, Any]:
        return self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]

    def command(self, name: str) -> None:
        self.commands.append(name)


def reload(monkeypatch: pytest.MonkeyPatch, client: Replaying, *options: str) -> Result:
    monkeypatch.setattr(command, "_client", lambda *_: client)
    result = CliRunner().invoke(command.reload, options)
    assert client.commands == ["reload"]
    return result


def test_it_ends_with_the_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    after = {**FIRST, "reloads": {"completed": 4, "failed": 1}}
    result = reload(monkeypatch, Replaying(FIRST, FIRST, after))
    assert (result.exit_code, result.output) == (0, "reloaded\n")


def test_a_reload_that_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = reload(monkeypatch, Replaying(FIRST), "--timeout", "200ms")
    assert isinstance(result.exception, Error)
    assert str(result.exception) == (
        "the reload has not ended within 0.2 s, and goes on; see `bolide status` and the server's "
        "log, or raise --timeout"
    )


@pytest.mark.parametrize("other", [{"pid": 2}, {"start_time_s": 99.0}])
def test_a_process_that_takes_over_is_reported(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    after = {**FIRST, **other, "reloads": {}}
    result = reload(monkeypatch, Replaying(FIRST, after))
    assert isinstance(result.exception, Error)
    assert str(result.exception).startswith("another process has taken over during the reload")
