"""`bolide race list --how NAME`: what a user has to do for a contestant or a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.lab import inventory
from bolide.lab.plan import contestant, how
from bolide.lab.tools import TOOLS


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))


def test_what_no_package_has_is_built_by_commands() -> None:
    lines = inventory.instructions(["swoole"])
    assert lines[0] == "swoole: Swoole's own HTTP server"
    at = lines.index("  commands:")
    assert lines[at + 1].startswith("    apt-get install --no-install-recommends php8.2-cli")
    assert any("pecl install" in line for line in lines)
    assert lines[-1] == "  started as: php '{apps}/swoole_plain.php' '{host}' '{port}'"


def test_an_environment_has_its_steps() -> None:
    lines = how.of_contestant(contestant.own()["bjoern"])
    assert any(line.startswith("  packages: apt-get install") for line in lines)
    at = lines.index("  bolide race setup bjoern:")
    assert lines[at + 1 : at + 3] == [
        "    python3 -m venv FOLDER",
        "    FOLDER/bin/python -m pip install bjoern==3.2.2",
    ]
    assert lines[-1] == "  note: responds only to the first of several pipelined requests"


def test_what_needs_nothing_says_so() -> None:
    lines = how.of_contestant(contestant.own()["http-server"])
    assert lines[2] == "  nothing has to be installed"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrk", "  packages: apt-get install --no-install-recommends wrk"),
        ("oha", "    cargo install --locked oha"),
        ("webbench", "  cannot run here, no package has it; bolide load --like"),
    ],
)
def test_tools_have_theirs(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(TOOLS[name]), "version", lambda self: None)
    assert any(line.startswith(said) for line in inventory.instructions([name]))


def test_every_contestant_and_tool_says_how() -> None:
    for each in contestant.own().values():
        setup = each.setup
        lines = how.of_contestant(each)
        assert lines[-1 - len(each.entry.remarks)].startswith("  started as: "), each.name
        if setup.missing:
            assert setup.how, each.name
    for tool in TOOLS.values():
        assert tool.name in ("bolide", "hold") or tool.apt or tool.how or tool.missing


def test_an_unknown_name_is_one_line() -> None:
    with pytest.raises(ConfigError, match="no contestant 'nonsense'"):
        inventory.instructions(["nonsense"])
