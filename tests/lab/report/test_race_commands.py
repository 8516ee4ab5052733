"""`race report` and `race compare` as commands: files, verdicts, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bolide.errors import ConfigError
from bolide.lab.report.command import compare, report
from bolide.lab.report.compare import changes
from bolide.lab.report.summary import gather
from lab import sample_race

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write three races: one, the same with a slower Bolide, and one of a single round."""
    made = tmp_path_factory.mktemp("races")
    races = {
        "base": sample_race.records(),
        "slower": sample_race.records(factor=0.8),
        "single": sample_race.records(rounds=1),
    }
    return {name: str(sample_race.write(made / name, found)) for name, found in races.items()}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(compare, arguments)


def test_nothing_changed(folders: dict[str, str]) -> None:
    done = run(folders["base"], folders["base"])
    assert done.exit_code == 0
    assert "geometric mean of B/A: 1.000" in done.stdout
    assert "faster" not in done.stdout and "slower" not in done.stdout


def test_slower_is_an_exit_code(folders: dict[str, str]) -> None:
    done = run(folders["base"], folders["slower"], "--only", "bolide-asgi", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert {each["verdict"] for each in found} == {"slower"}
    assert all(0.76 < each["ratio"]["middle"] < 0.84 for each in found)
    assert {each["contestant"] for each in found} == {"bolide-asgi"}


def test_faster_is_success(folders: dict[str, str]) -> None:
    done = run(folders["slower"], folders["base"])
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert {line[-1] for line in lines if "bolide-native" in line} == {"faster"}
    assert not [
        line for line in lines if line[1:3] == ["single-wrk", "bjoern"] and "faster" in line
    ]


def test_a_change_below_the_threshold_is_none(folders: dict[str, str]) -> None:
    done = run(folders["base"], folders["slower"], "--threshold", "99")
    assert done.exit_code == 0 and "slower" not in done.stdout


def test_a_single_round_says_nothing(folders: dict[str, str]) -> None:
    done = run(folders["single"], folders["single"])
    assert done.exit_code == 0
    assert "unknown: an interval needs at least two rounds in each race" in done.stdout


def test_shares_of_the_ceiling(folders: dict[str, str]) -> None:
    done = run(folders["base"], folders["slower"], "--of-ceiling", "--only", "bolide-wsgi")
    assert done.exit_code == 1
    assert "ceiling" not in done.stdout.split("\n")[1]


def test_a_slower_machine_is_no_change_relative_to_the_ceiling() -> None:
    one, two = gather(sample_race.records()), gather(sample_race.records())
    for result in two.results:
        for figure in result.figures.values():
            figure.__dict__["by_round"] = {n: rate / 2 for n, rate in figure.by_round.items()}
    assert {each.verdict for each in changes(one, two) if each.ratio} == {"slower"}
    relative = changes(one, two, is_relative=True)
    assert {each.verdict for each in relative if each.ratio} == {"no change"}


def test_mistakes_are_named(folders: dict[str, str]) -> None:
    done = run(folders["base"], folders["base"], "--only", "nginx")
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "the races do not have 'nginx' in common"
    done = run(folders["base"], str(Path(folders["base"]) / "none"))
    assert isinstance(done.exception, ConfigError)


def test_what_now_fails_is_a_step_back() -> None:
    good, bad = gather(sample_race.records()), gather(sample_race.records())
    figure = bad.results[1].figures["single-wrk", "bjoern"]
    figure.__dict__["valid"] = []
    (found,) = [each for each in changes(good, bad) if each.verdict == "now fails"]
    assert found.is_bad and found.after is None
    (found,) = [each for each in changes(bad, good) if each.verdict == "now works"]
    assert not found.is_bad


def test_report_writes_files(folders: dict[str, str], tmp_path: Path) -> None:
    done = CliRunner().invoke(report, [folders["base"], "--out", str(tmp_path)])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [str(tmp_path / "report.html"), str(tmp_path / "report.md")]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_png_is_written(folders: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    done = CliRunner().invoke(report, [folders["single"], "--out", str(tmp_path), "--png"])
    assert done.exit_code == 0
    data = (tmp_path / "wsgi-c100-wrk-rate.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20]) == 2 * 760


def test_png_without_the_package(
    folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    done = CliRunner().invoke(report, [folders["single"], "--out", str(tmp_path), "--png"])
    assert isinstance(done.exception, ConfigError)
    assert "pip install 'bolide[lab]'" in str(done.exception)
