"""What may go on in a folder of results: the same race, and no other."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab import race
from bolide.lab.plan import environments
from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.environments import Status
from bolide.lab.plan.schedule import Slot
from bolide.lab.record import journal, machine, schema
from bolide.lab.record.resume import check_same
from bolide.lab.record.schema import Trial
from bolide.lab.trial import trial
from lab.tiny_race import CPU, Silent, among, liar, options, renamed, study, trials_of

pytestmark = pytest.mark.slow


def test_results_are_not_mixed(tmp_path: Path, silent: Silent) -> None:
    race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    with pytest.raises(ConfigError, match="has results already; add --resume"):
        race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    resumed = options(tmp_path, resumes=True)
    with pytest.raises(ConfigError, match=r"has another race \(tiny, other settings\)"):
        race.run(study(rounds=7), ["honest"], resumed, silent, among("honest"))


@pytest.mark.parametrize(
    ("names", "other", "message"),
    [
        (["honest"], {"seed": 7}, "(--seed 0)"),
        (["honest"], {"load_cpus": (CPU, CPU + 1)}, f"(--cpus server={CPU} load={CPU})"),
        (["honest"], {"server_cpus": (CPU, CPU + 1)}, f"(--cpus server={CPU} load={CPU})"),
        (["honest", "other"], {}, "(without other, which would need its own rounds)"),
    ],
)
def test_a_race_that_goes_on_is_the_same_one(
    names: list[str], other: dict[str, object], message: str, tmp_path: Path, silent: Silent
) -> None:
    known = among("honest") | {"other": renamed(liar("honest"), "other")}
    race.run(study(), ["honest"], options(tmp_path), silent, known)
    before = (tmp_path / "out" / journal.FILE_NAME).read_bytes()
    resumed = options(tmp_path, resumes=True, **other)
    with pytest.raises(ConfigError) as caught:
        race.run(study(), names, resumed, silent, known)
    assert str(caught.value) == f"{tmp_path / 'out'} has another race {message}; name another --out"
    assert (tmp_path / "out" / journal.FILE_NAME).read_bytes() == before


def test_a_race_goes_on_with_all_and_reports_nothing_twice(tmp_path: Path, silent: Silent) -> None:
    known = among("honest") | {"other": renamed(liar("honest"), "other")}
    silent.at_end = lambda found: os.kill(os.getpid(), signal.SIGTERM)
    race.run(study(), ["honest", "other"], options(tmp_path), silent, known)
    [first] = trials_of(tmp_path)
    [left] = {"honest", "other"} - {first.contestant}
    some = options(tmp_path, resumes=True, only=(left,))
    refusal = rf"\(with {first.contestant}, whose rounds would be from different times\)"
    with pytest.raises(ConfigError, match=refusal):
        race.run(study(), ["honest", "other"], some, silent, known)
    resumed = options(tmp_path, resumes=True)
    race.run(study(), ["honest", "other"], resumed, silent, known)
    assert [each.contestant for each in trials_of(tmp_path)] == [first.contestant, left]
    kinds = [type(each).__name__ for each in journal.read(tmp_path / "out")]
    assert kinds == ["Machine", "Study", "Contestant", "Contestant", "Trial", "Machine", "Trial"]


def test_packed_results_are_not_shadowed(tmp_path: Path, silent: Silent) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{journal.FILE_NAME}.gz").touch()
    for resumes in (False, True):
        with pytest.raises(
            ConfigError, match=r"results\.jsonl\.gz is compressed; gunzip it to resume"
        ):
            race.run(
                study(), ["honest"], options(tmp_path, resumes=resumes), silent, among("honest")
            )


READY = Status("ready", version="1.0")


def _instant(slot: Slot, conditions: trial.Conditions) -> Trial:
    return trial.failed(slot, conditions, schema.Failure("none", ""))


def _refused(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch, was: Status, now: Status
) -> str:
    """Race two, the second in one state, and go on in another; give why that is refused."""
    known = among("honest") | {"other": renamed(liar("honest"), "other")}
    states = {"honest": READY, "other": was}
    monkeypatch.setattr(trial, "run", _instant)
    monkeypatch.setattr(environments, "examine", lambda who: states[who.name])
    race.run(study(), ["honest", "other"], options(tmp_path), silent, known)
    before = (tmp_path / "out" / journal.FILE_NAME).read_bytes()
    states["other"] = now
    resumed = options(tmp_path, resumes=True)
    with pytest.raises(ConfigError) as caught:
        race.run(study(), ["honest", "other"], resumed, silent, known)
    assert (tmp_path / "out" / journal.FILE_NAME).read_bytes() == before
    return str(caught.value).removeprefix(f"{tmp_path / 'out'} has another race ")


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        (READY, Status("ready", version="1.1"), "(other 1.0, now 1.1)"),
        (READY, Status("ready"), "(other 1.0, now unknown)"),
        (READY, Status("needs set-up", "why"), "(other was ready, now needs set-up)"),
        (Status("cannot run here", "why"), READY, "(other was cannot run here, now ready)"),
    ],
)
def test_other_servers_are_another_race(
    was: Status,
    now: Status,
    message: str,
    tmp_path: Path,
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _refused(tmp_path, silent, monkeypatch, was, now) == f"{message}; name another --out"


def test_other_settings_are_another_race(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "run", _instant)
    race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    faster = liar("honest")
    entry = msgspec.structs.replace(faster.entry, command=(*faster.entry.command, "--fast"))
    known = {"honest": msgspec.structs.replace(faster, entry=entry)}
    with pytest.raises(ConfigError, match=r"has another race \(honest with other settings\)"):
        race.run(study(), ["honest"], options(tmp_path, resumes=True), silent, known)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": {"a.conf": "one", "b.conf": "three"}}, "honest: b.conf changed"),
        ({"files": {"a.conf": "one"}}, "honest: b.conf changed"),
        ({"environment": {"GOMAXPROCS": "2"}}, "honest: its variables changed"),
        ({}, ""),
    ],
)
def test_other_files_and_variables_are_another_race(
    changes: dict[str, dict[str, str]],
    message: str,
    tmp_path: Path,
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def known(files: dict[str, str], environment: dict[str, str]) -> dict[str, Contestant]:
        found = liar("honest", environment=environment)
        return {"honest": msgspec.structs.replace(found, files=files)}

    monkeypatch.setattr(trial, "run", _instant)
    parts = {"files": {"a.conf": "one", "b.conf": "two"}, "environment": {"GOMAXPROCS": "1"}}
    race.run(study(), ["honest"], options(tmp_path), silent, known(**parts))
    resumed = options(tmp_path, resumes=True)
    if not message:
        assert race.run(study(), ["honest"], resumed, silent, known(**parts))
        return
    with pytest.raises(ConfigError) as caught:
        race.run(study(), ["honest"], resumed, silent, known(**parts | changes))
    said = f"{tmp_path / 'out'} has another race ({message}); name another --out"
    assert str(caught.value) == said


def check_message(folder: Path, records: list[list[schema.Record]], message: str) -> None:
    """Check why the second records are another race than the first ones; "" if they are not."""
    if not message:
        check_same(folder, *records, {})
        return
    with pytest.raises(ConfigError) as caught:
        check_same(folder, *records, {})
    assert str(caught.value) == f"{folder} has another race ({message}); name another --out"


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ({"Bolide's core library": "a", "{apps}/x.py": "b"}, ""),
        ({"Bolide's core library": "z", "{apps}/x.py": "b"}, "Bolide's core library changed"),
        ({"Bolide's core library": "a", "{apps}/x.py": "z"}, "{apps}/x.py changed"),
        ({"Bolide's core library": "a"}, "{apps}/x.py changed"),
        (None, "of another Bolide, without hashes of what it ran"),
    ],
)
def test_another_build_of_the_same_version_is_another_race(
    before: dict[str, str] | None, message: str, tmp_path: Path
) -> None:
    now = machine.describe()
    hashes = {"Bolide's core library": "a", "{apps}/x.py": "b"}
    records = [[msgspec.structs.replace(now, parts=parts), study()] for parts in (before, hashes)]
    check_message(tmp_path, records, message)


@pytest.mark.parametrize(
    ("sysctls", "limits", "message"),
    [
        ({"net.core.somaxconn": "4096"}, {"nofile_soft": 65_536}, ""),
        ({}, {}, ""),
        ({"net.core.somaxconn": "128"}, {}, "net.core.somaxconn 4096, now 128"),
        ({}, {"nofile_soft": 1024}, "nofile_soft 65536, now 1024"),
    ],
)
def test_other_settings_of_the_system_are_another_race(
    sysctls: dict[str, str], limits: dict[str, int], message: str, tmp_path: Path
) -> None:
    known = {"net.core.somaxconn": "4096"}, {"nofile_soft": 65_536}
    records = [
        [msgspec.structs.replace(machine.describe(), sysctls=one, limits=two), study()]
        for one, two in (known, (sysctls, limits))
    ]
    check_message(tmp_path, records, message)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"kernel": "Linux 9.9"}, "kernel {kernel}, now Linux 9.9"),
        ({"cpu_model": None}, "processor {cpu_model}, now unknown"),
        ({"bolide_version": "9.9"}, "Bolide {bolide_version}, now 9.9"),
        ({"python": "CPython 9.9"}, "Python {python}, now CPython 9.9"),
    ],
)
def test_another_machine_is_another_race(
    part: dict[str, str | None],
    message: str,
    tmp_path: Path,
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "run", _instant)
    race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    now = machine.describe()
    monkeypatch.setattr(machine, "describe", lambda: msgspec.structs.replace(now, **part))
    with pytest.raises(ConfigError) as caught:
        race.run(study(), ["honest"], options(tmp_path, resumes=True), silent, among("honest"))
    said = message.format(**msgspec.structs.asdict(now))
    assert str(caught.value) == f"{tmp_path / 'out'} has another race ({said}); name another --out"


def test_another_version_of_a_tool_is_another_race(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "run", _instant)
    race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    version = trials_of(tmp_path)[0].tool_version
    monkeypatch.setattr("bolide.lab.tools.bolide.Bolide.version", lambda tool: "9.9")
    with pytest.raises(ConfigError) as caught:
        race.run(study(), ["honest"], options(tmp_path, resumes=True), silent, among("honest"))
    said = f"bolide {version}, now 9.9"
    assert str(caught.value) == f"{tmp_path / 'out'} has another race ({said}); name another --out"
