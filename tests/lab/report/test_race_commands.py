"""`race report` and `race compare` as commands: files, verdicts, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from bolide.errors import ConfigError
from bolide.lab.record.journal import FILE_NAME
from bolide.lab.record.schema import Contestant, Record, Trial
from bolide.lab.report.command import compare, report
from bolide.lab.report.compare import changes
from bolide.lab.report.drawing.bars import WIDE
from bolide.lab.report.summary import gather
from lab import sample_race

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write races: one, the same with a slower Bolide, and some of fewer rounds."""
    made = tmp_path_factory.mktemp("races")
    races = {
        "base": sample_race.records(),
        "slower": sample_race.records(factor=0.8),
        "single": sample_race.records(rounds=1),
        "five": sample_race.records(rounds=5),
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
    only = ("--only", "bolide-asgi")
    assert run(folders["base"], folders["slower"], *only).exit_code == 1
    done = run(folders["base"], folders["slower"], *only, "--threshold", "99")
    assert done.exit_code == 0 and "slower" not in done.stdout


@pytest.mark.parametrize("name", ["single", "five"])
def test_few_rounds_decide_nothing(name: str, folders: dict[str, str]) -> None:
    done = run(folders[name], folders["slower"])
    assert done.exit_code == 0
    assert "unknown: the test needs 6 rounds that both races have" in done.stdout
    assert " slower" not in done.stdout and " faster" not in done.stdout


def test_equal_races_do_not_differ_in_any_row() -> None:
    """The same rates, drawn anew: of many rows, none is called different."""
    before, after = gather(sample_race.records()), gather(_drawn_anew())
    found = changes(before, after, threshold=0.0)
    assert len(found) == 174
    assert {each.verdict for each in found if each.p_value is not None} == {"no change"}
    assert {each.contestant for each in found if each.p_value is None} == {"gunicorn-gthread"}
    drift = [abs(each.ratio.middle - 1) for each in found if each.ratio]
    assert max(drift) > 0.01


def _drawn_anew() -> list[Record]:
    """Return the race with rounds 1 to 7 instead of 0 to 6: other draws, and renumbered."""
    found: list[Record] = []
    for each in sample_race.records(rounds=14):
        if isinstance(each, Trial):
            if each.round < 7:
                continue
            each = msgspec.structs.replace(each, round=each.round - 7)
        found.append(each)
    return found


def test_races_that_were_mostly_noisy_decide_nothing(tmp_path: Path) -> None:
    def noisy(records: list[Record], rounds: int) -> list[Record]:
        return [
            msgspec.structs.replace(each, verdict="noisy")
            if isinstance(each, Trial) and each.failure is None and each.round < rounds
            else each
            for each in records
        ]

    base = str(sample_race.write(tmp_path / "base", sample_race.records()))
    slower = sample_race.records(factor=0.8)
    some, most = (
        str(sample_race.write(tmp_path / f"{rounds}", noisy(slower, rounds))) for rounds in (3, 4)
    )
    done = run(base, some, "--only", "bolide-asgi")
    assert done.exit_code == 1
    assert "slower, noisy" in done.stdout
    assert "trials were noisy: other work took processor time" in done.stdout
    done = run(base, most, "--only", "bolide-asgi", "--json")
    rows = json.loads(done.stdout)
    assert {(each["verdict"], each["is_noisy"]) for each in rows} == {("unknown", True)}
    assert done.exit_code == 0
    assert "This race decides nothing." in done.stderr


def test_the_correction_is_for_the_rows_that_are_compared(folders: dict[str, str]) -> None:
    def values(*only: str) -> dict[tuple[str, str], float]:
        done = run(folders["base"], folders["slower"], "--json", *only)
        rows = json.loads(done.stdout)
        return {(row["workload"], row["contestant"]): row["p_value"] for row in rows}

    all_rows, few_rows = values(), values("--only", "bolide-asgi")
    assert len(few_rows) < len(all_rows)
    assert all(few_rows[key] <= all_rows[key] for key in few_rows)
    page = run(folders["base"], folders["slower"], "--only", "bolide-asgi").stdout
    assert f"p: corrected for {len(few_rows)} rows; a change needs 0.05 or less" in page
    assert "interval of B/A: 98.4 % interval" in page


def _twice(rate: float) -> list[Record]:
    """Return a race in which bjoern is run twice, the second time with that share of its rate."""
    found: list[Record] = []
    for each in sample_race.records():
        found.append(each)
        if isinstance(each, Contestant) and each.name == "bjoern":
            found.append(msgspec.structs.replace(each, name="bjoern-again", copy_of="bjoern"))
        if isinstance(each, Trial) and each.contestant == "bjoern":
            again = (each.requests_per_s or 0) * rate
            found.append(
                msgspec.structs.replace(each, contestant="bjoern-again", requests_per_s=again)
            )
    return found


def test_nothing_below_the_floor_is_a_difference(folders: dict[str, str], tmp_path: Path) -> None:
    quiet = str(sample_race.write(tmp_path / "quiet", _twice(1.01)))
    noisy = str(sample_race.write(tmp_path / "noisy", _twice(0.7)))
    assert gather(_twice(0.8)).floor == pytest.approx(0.25)
    assert gather(sample_race.records()).floor is None
    base, slower = folders["base"], folders["slower"]
    only = ("--only", "bolide-asgi")
    assert run(base, slower, *only, "--floor", quiet).exit_code == 1
    done = run(base, slower, *only, "--floor", noisy)
    assert done.exit_code == 0 and " slower" not in done.stdout
    assert run(noisy, slower, *only).exit_code == 0  # its own floor counts too
    assert "bjoern-again" not in run(noisy, slower).stdout
    done = run(base, slower, "--floor", base)
    assert str(done.exception) == f"{base} has no contestant twice: run it with --aa"


def test_a_floor_of_few_or_noisy_rounds_is_not_to_be_relied_on() -> None:
    assert gather(_twice(0.8)).floor_doubt == ""
    few = [each for each in _twice(0.8) if not isinstance(each, Trial) or each.round < 2]
    assert gather(few).floor_doubt == "only 2 rounds"
    noisy = [
        msgspec.structs.replace(each, verdict="noisy")
        if isinstance(each, Trial) and each.contestant == "bjoern-again" and each.is_valid
        else each
        for each in _twice(0.8)
    ]
    copies = len({each.workload for each in noisy if isinstance(each, Trial)})
    assert gather(noisy).floor_doubt.endswith(f" of {copies} copies are noisy")


def test_shares_of_the_ceiling(folders: dict[str, str]) -> None:
    done = run(folders["base"], folders["slower"], "--of-ceiling", "--only", "bolide-wsgi")
    assert done.exit_code == 1
    assert "ceiling" not in done.stdout.split("\n")[1]


def test_a_slower_machine_is_no_change_relative_to_the_ceiling() -> None:
    one, two = gather(sample_race.records()), gather(sample_race.records())
    for result in two.results:
        for figure in result.figures.values():
            figure.__dict__["by_turn"] = {n: rate / 2 for n, rate in figure.by_turn.items()}
    assert {each.verdict for each in changes(one, two) if each.ratio} == {"slower"}
    relative = changes(one, two, is_relative=True)
    assert {each.verdict for each in relative if each.ratio} == {"no change"}


def test_the_ceiling_says_whether_the_machine_was_the_same(
    folders: dict[str, str], tmp_path: Path
) -> None:
    assert run(folders["base"], folders["slower"]).stdout.endswith("\nceiling: B/A 1.000\n")
    slow = str(sample_race.write(tmp_path / "slow", _at(0.95)))
    done = run(folders["base"], slow)
    said = "ceiling: B/A 0.950: the machine differed, which looks like a change;"
    assert done.stdout.endswith(f"\n{said} --of-ceiling removes that\n")
    done = run(folders["base"], slow, "--json")
    assert json.loads(done.stdout) and done.stderr.startswith(said)
    assert "ceiling: B/A" not in run(folders["base"], slow, "--of-ceiling").output
    without = str(sample_race.write(tmp_path / "without", _at(0.0)))
    assert "without the ceiling in both races" in run(folders["base"], without).stdout


def _at(speed: float) -> list[Record]:
    """Return the race on a machine of another speed; without the ceiling if that is 0."""
    found: list[Record] = []
    for each in sample_race.records():
        if (
            isinstance(each, Trial)
            and each.requests_per_s
            and (speed or each.contestant != "ceiling")
        ):
            each = msgspec.structs.replace(each, requests_per_s=each.requests_per_s * (speed or 1))
            found.append(each)
        elif not isinstance(each, Trial):
            found.append(each)
    return found


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


def test_a_race_that_was_killed_while_it_wrote_has_a_report(tmp_path: Path) -> None:
    folder = sample_race.write(tmp_path, sample_race.records(rounds=1))
    path = folder / FILE_NAME
    path.write_bytes(path.read_bytes()[:-20])
    done = CliRunner().invoke(report, [str(folder)])
    assert done.exit_code == 0, done.exception
    assert "</html>" in (folder / "report.html").read_text()


def test_png_is_written(folders: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    done = CliRunner().invoke(report, [folders["single"], "--out", str(tmp_path), "--png"])
    assert done.exit_code == 0
    data = (tmp_path / "wsgi-c100-wrk-rate.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20]) == 2 * WIDE


def test_png_without_the_package(
    folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    done = CliRunner().invoke(report, [folders["single"], "--out", str(tmp_path), "--png"])
    assert isinstance(done.exception, ConfigError)
    assert "pip install 'bolide[lab]'" in str(done.exception)


def test_a_report_is_the_same_in_any_locale(folders: dict[str, str], tmp_path: Path) -> None:
    said = []
    for name, variables in (("c", {"LC_ALL": "C", "PYTHONUTF8": "0"}), ("utf8", {})):
        arguments = ["race", "report", folders["single"], "--out", str(tmp_path / name)]
        done = subprocess.run(
            [sys.executable, "-m", "bolide", *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        said.append((tmp_path / name / "report.md").read_bytes())
    assert said[0] == said[1] and "–".encode() in said[0]
