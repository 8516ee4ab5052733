"""What `race compare` refuses, and what it says about races under other conditions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from bolide.errors import ConfigError
from bolide.lab.record.schema import Contestant, Machine, Record, Study, Trial
from bolide.lab.report import conditions
from bolide.lab.report.command import compare
from bolide.lab.report.compare import changes
from bolide.lab.report.summary import Group, gather
from lab import sample_race, tiny_race

pytestmark = pytest.mark.slow


def altered(kind: type[Record], **more: object) -> list[Record]:
    """Return the sample race with other fields in all records of a kind."""
    return [
        msgspec.structs.replace(each, **more) if isinstance(each, kind) else each
        for each in sample_race.records()
    ]


def with_load(**more: object) -> list[Record]:
    """Return the sample race with other fields in all workloads."""
    return [
        msgspec.structs.replace(
            each, workloads=tuple(msgspec.structs.replace(w, **more) for w in each.workloads)
        )
        if isinstance(each, Study)
        else each
        for each in sample_race.records()
    ]


def found_in(records: list[Record], only: str = "bjoern") -> list[str]:
    one, two = gather(sample_race.records()), gather(records)
    return conditions.differences(one, two, changes(one, two, only=(only,)))


def test_equal_races_differ_in_nothing() -> None:
    assert found_in(sample_race.records()) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kernel": "Linux 9.9"}, "kernel {kernel}, now Linux 9.9"),
        ({"cpu_model": "Other"}, "processor {cpu_model}, now Other"),
        ({"cpus": 99}, "processors {cpus}, now 99"),
        ({"bolide_version": "9.0"}, "Bolide {bolide_version}, now 9.0"),
    ],
)
def test_another_machine_is_named(fields: dict[str, object], said: str) -> None:
    machine = sample_race.machine()
    before = {name: getattr(machine, name) for name in fields}
    assert found_in(altered(Machine, **fields)) == [said.format(**before)]


def test_other_processors_and_system_settings_are_named() -> None:
    machine = sample_race.machine()
    assert machine.sysctls
    name = min(machine.sysctls)
    one = [
        msgspec.structs.replace(each, server_cpus=(0,), load_cpus=(1,))
        if isinstance(each, Machine)
        else each
        for each in sample_race.records()
    ]
    two = altered(
        Machine,
        server_cpus=(0, 2),
        load_cpus=(1,),
        sysctls=machine.sysctls | {name: "other"},
    )
    before, after = gather(one), gather(two)
    assert conditions.differences(before, after, changes(before, after, only=("bjoern",))) == [
        "--cpus server 0, now 0,2",
        f"{name} {machine.sysctls[name]}, now other",
    ]
    assert found_in(altered(Machine, server_cpus=(0, 2), load_cpus=(1,))) == []  # not recorded


def test_other_versions_settings_and_durations_are_named() -> None:
    [bjoern] = (
        each
        for each in sample_race.records()
        if isinstance(each, Contestant) and each.name == "bjoern"
    )
    assert found_in(altered(Contestant, version="9.0")) == [f"bjoern {bjoern.version}, now 9.0"]
    assert found_in(altered(Contestant, settings="x")) == ["bjoern with other settings"]
    assert any(each.endswith(", now 9.0") for each in found_in(altered(Trial, tool_version="9.0")))
    shorter = found_in(with_load(duration_s=0.25))
    assert shorter and all(
        each.startswith("duration of ") and each.endswith("now 0.25 s") for each in shorter
    )


def test_what_was_planned_otherwise_is_the_same_load() -> None:
    assert found_in(with_load(rounds=3, is_quick=True)) == []


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Result]:
    def run(records: list[Record], *flags: str) -> Result:
        one = sample_race.write(tmp_path / "one", sample_race.records())
        two = sample_race.write(tmp_path / "two", records)
        arguments = [str(one), str(two), "--only", "bjoern", *flags]
        return CliRunner().invoke(compare, arguments)

    return run


def test_other_loads_are_refused(compared: Callable[..., Result]) -> None:
    done = compared(with_load(timeout_s=9.0))
    assert isinstance(done.exception, ConfigError)
    assert "the races cannot be compared: the load " in str(done.exception)
    assert str(done.exception).endswith("has timeout_s 5.0, now 9.0")


def test_the_command_says_it_beside_json(compared: Callable[..., Result]) -> None:
    said = "B differs from A, which may look like a change: bjoern with other settings\n"
    done = compared(altered(Contestant, settings="x"))
    assert done.stdout.endswith(said)
    done = compared(altered(Contestant, settings="x"), "--json")
    assert said in done.stderr and said not in done.stdout


def test_a_load_with_settings_of_the_kernel_shows_them() -> None:
    cookies = (("net.ipv4.tcp_syncookies", "0"),)
    load = tiny_race.workload(sysctls=cookies, is_persistent=False)
    assert Group([load]).title.endswith(" · a connection per request · tcp_syncookies 0")
