"""Tuning and restoring on a machine of files, with every kind of end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from bolide.doctor import record, session
from bolide.doctor.catalogue import settings
from bolide.doctor.command import PROFILES
from bolide.doctor.profile import profiles
from bolide.errors import ConfigError
from doctor.machine import Machine
from support.server import clean_environ

pytestmark = pytest.mark.slow

waits_for_a_child = pytest.mark.alone
"""For SIGCHLD, which another thread of this process could take."""

OLD = {
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.tcp_tw_reuse": "2",
}
NEW = {
    "net.ipv4.ip_local_port_range": "10000 65535",
    "net.ipv4.tcp_tw_reuse": "1",
}
RESTORED = {name: " ".join(value.split()) for name, value in OLD.items()}
"""The kernel puts its own tabs back; a file keeps what is written."""
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
WAITING = "import signal, sys; print('runs', flush=True); sys.stdin.read()"
STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('ends'), sys.exit(7))); "
    "print('runs', flush=True); sys.stdin.read()"
)


def now(machine: Machine) -> dict[str, str]:
    return {name: machine.get(name) for name in OLD}


def tune(machine: Machine, *command: str, profile: str = "load-generator") -> tuple[int, list[str]]:
    said: list[str] = []
    return session.tune(machine.root, profile, list(command), said.append), said


def restore(machine: Machine) -> tuple[int, list[str]]:
    said: list[str] = []
    return session.restore(machine.root, said.append), said


def doctor(machine: Machine, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "bolide", "doctor", "--root", str(machine.root), *arguments]


@contextmanager
def tuned_command(machine: Machine, code: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Run Python code under a profile, and wait until it runs."""
    arguments = ("--tune", "load-generator", "--", sys.executable, "-c", code)
    with subprocess.Popen(
        doctor(machine, *arguments),
        env=clean_environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "runs\n"
            yield process, process.stdout
        finally:
            process.kill()


def recorded(machine: Machine) -> Path:
    return machine.root / record.PLACE


def test_profiles_are_of_the_catalogue_and_of_the_command() -> None:
    assert tuple(profiles()) == PROFILES
    known = {each.name for each in settings()}
    assert {wish.name for wishes in profiles().values() for wish in wishes} <= known
    union = {wish.name for name in PROFILES for wish in profiles()[name]}
    race = {wish.name for wish in profiles()["race"]}
    assert union - race == {"net.ipv4.tcp_slow_start_after_idle"}, "loopback does not feel it"


def test_tune_stays_until_restored(machine: Machine) -> None:
    code, said = tune(machine)
    assert (code, now(machine)) == (0, NEW)
    assert said == [
        "net.ipv4.ip_local_port_range: 32768 60999 -> 10000 65535",
        "net.ipv4.tcp_tw_reuse: 2 -> 1",
        "tuned until the machine restarts, or: run `bolide doctor --restore`",
    ]
    kept = json.loads(recorded(machine).read_text())
    assert kept == {
        "schema": 1,
        "profile": "load-generator",
        "changes": [
            {"name": name, "old": RESTORED[name], "new": value} for name, value in NEW.items()
        ],
    }
    code, said = restore(machine)
    assert (code, now(machine), recorded(machine).exists()) == (0, RESTORED, False)
    assert said[0] == "net.ipv4.tcp_tw_reuse: 1 -> 2"
    assert restore(machine) == (0, ["nothing to restore: there is no record"])


def test_record_is_there_before_the_first_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    put = session._put

    def watched(source: object, name: str, value: str) -> None:
        seen.append(name in recorded(machine).read_text())
        put(source, name, value)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "_put", watched)
    tune(machine)
    assert seen == [True, True]


def test_record_is_on_the_disk_before_the_first_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, put = os.fsync, session._put
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("sync"), fsync(fd)))
    monkeypatch.setattr(session, "_put", lambda *given: (order.append("write"), put(*given)))
    tune(machine)
    assert order == ["sync", "sync", "write", "write"], "the file and its folder come first"


def test_second_tune_is_refused_with_the_fix(machine: Machine) -> None:
    tune(machine)
    with pytest.raises(ConfigError, match=r"already tuned \(.*\); run `bolide doctor --restore`"):
        tune(machine, profile="server")
    assert machine.get("net.core.somaxconn") == "4096"
    restore(machine)
    assert now(machine) == RESTORED


def test_larger_and_wider_values_stay(machine: Machine) -> None:
    machine.set("net.core.somaxconn", "65535")
    machine.set("net.ipv4.ip_local_port_range", "1024 60999")
    tune(machine, profile="race")
    assert machine.get("net.core.somaxconn") == "65535"
    assert machine.get("net.ipv4.ip_local_port_range") == "1024 65535"
    restore(machine)
    assert machine.get("net.ipv4.ip_local_port_range") == "1024 60999"


def test_nothing_to_change_leaves_no_record(machine: Machine) -> None:
    for name, value in NEW.items():
        machine.set(name, value)
    code, said = tune(machine)
    assert (code, recorded(machine).exists()) == (0, False)
    assert said == [
        "nothing to change: this machine already has all settings of profile load-generator"
    ]


def test_setting_that_is_not_there_is_left_out(machine: Machine) -> None:
    machine.unset("net.ipv4.tcp_tw_reuse")
    code, said = tune(machine)
    assert code == 0
    assert said[0].startswith("net.ipv4.tcp_tw_reuse is left out: /proc/sys/net/ipv4/tcp_tw_reuse")
    assert machine.get("net.ipv4.ip_local_port_range") == "10000 65535"


def test_dry_run_writes_nothing(machine: Machine) -> None:
    said: list[str] = []
    assert session.tune(machine.root, "race", [], said.append, is_dry=True) == 0
    assert "net.core.somaxconn: 4096 -> 16384" in said
    assert machine.get("net.core.somaxconn") == "4096"
    assert not recorded(machine).exists()


def test_value_that_somebody_else_changed_is_left_and_said(machine: Machine) -> None:
    tune(machine)
    machine.set("net.ipv4.tcp_tw_reuse", "0")
    code, said = restore(machine)
    assert code == 1
    assert machine.get("net.ipv4.tcp_tw_reuse") == "0"
    assert machine.get("net.ipv4.ip_local_port_range") == "32768 60999"
    assert said[0] == (
        "net.ipv4.tcp_tw_reuse is left at 0: it was changed after --tune had set 1; "
        "before that it was 2"
    )
    assert not recorded(machine).exists()


def test_failed_write_takes_everything_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = session._put

    def failing(source: object, name: str, value: str) -> None:
        if name.endswith("reuse"):
            raise PermissionError(13, "Permission denied")
        put(source, name, value)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "_put", failing)
    with pytest.raises(
        ConfigError, match="tcp_tw_reuse: Permission denied; all settings are as before"
    ):
        tune(machine)
    assert now(machine) == {**OLD, "net.ipv4.ip_local_port_range": "32768 60999"}
    assert not recorded(machine).exists()


def test_value_that_the_kernel_bends_is_taken_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = session._put

    def bending(source: object, name: str, value: str) -> None:
        put(source, name, "7" if value == "1" else value)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "_put", bending)
    with pytest.raises(
        ConfigError, match="the kernel stored 7 instead of 1; all settings are as before"
    ):
        tune(machine)
    assert now(machine) == RESTORED


def test_setting_that_cannot_be_restored_keeps_the_record(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(machine)
    machine.unset("net.ipv4.tcp_tw_reuse")
    code, said = restore(machine)
    assert code == 1 and recorded(machine).exists()
    assert said[0].startswith("net.ipv4.tcp_tw_reuse is not restored to 2: ")
    machine.set("net.ipv4.tcp_tw_reuse", "1")
    assert restore(machine)[0] == 0
    assert (now(machine), recorded(machine).exists()) == (RESTORED, False)


@waits_for_a_child
def test_command_runs_tuned_and_its_code_is_ours(machine: Machine) -> None:
    path = machine.root / "proc/sys/net/ipv4/tcp_tw_reuse"
    code, said = tune(machine, "sh", "-c", f"exit 4$(cat {path})")
    assert code == 41
    assert (now(machine), recorded(machine).exists()) == (RESTORED, False)
    assert said[-1] == "net.ipv4.ip_local_port_range: 10000 65535 -> 32768 60999"
    assert tune(machine, "sh", "-c", "kill -9 $$")[0] == 128 + 9


@waits_for_a_child
def test_setting_that_the_command_changed_is_left_and_shows_in_the_code(machine: Machine) -> None:
    path = machine.root / "proc/sys/net/ipv4/tcp_tw_reuse"
    assert tune(machine, "sh", "-c", f"echo 0 > {path}")[0] == 1
    assert machine.get("net.ipv4.tcp_tw_reuse") == "0"
    assert machine.get("net.ipv4.ip_local_port_range") == "32768 60999"


def test_record_that_goes_while_it_is_opened_is_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else restored between our opening it and our lock."""
    tune(machine)
    monkeypatch.setattr(record.fcntl, "flock", lambda *_: recorded(machine).unlink())
    assert restore(machine) == (0, ["nothing to restore: there is no record"])
    assert now(machine) == NEW


@waits_for_a_child
def test_command_that_is_not_there_changes_nothing(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="cannot run 'no-such-command': no such command"):
        tune(machine, "no-such-command")
    assert (now(machine), recorded(machine).exists()) == (OLD, False)


@pytest.mark.parametrize("number", SIGNALS, ids=[each.name for each in SIGNALS])
def test_signal_ends_the_command_and_restores(machine: Machine, number: signal.Signals) -> None:
    with tuned_command(machine, WAITING) as (process, _):
        assert now(machine) == NEW
        process.send_signal(number)
        assert process.wait(20) == 128 + number
    assert (now(machine), recorded(machine).exists()) == (RESTORED, False)


def test_command_has_the_last_word_on_a_signal(machine: Machine) -> None:
    with tuned_command(machine, STUBBORN) as (process, out):
        process.send_signal(signal.SIGTERM)
        assert (process.wait(20), out.read()) == (7, "ends\n")
    assert now(machine) == RESTORED


def test_restore_survives_a_kill(machine: Machine) -> None:
    with tuned_command(machine, WAITING) as (process, out):
        busy = subprocess.run(doctor(machine, "--restore"), capture_output=True, text=True)
        assert busy.returncode == 2
        assert "a command is still running under" in busy.stderr and now(machine) == NEW
        process.kill()
        process.wait(20)
        assert process.stdin is not None
        process.stdin.close()
        assert out.read() == "", "the command outlives its parent until its input ends"
    assert now(machine) == NEW
    refused = subprocess.run(doctor(machine, "--tune", "race"), capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    restored = subprocess.run(doctor(machine, "--restore"), capture_output=True, text=True)
    assert (restored.returncode, now(machine)) == (0, RESTORED)
    assert not recorded(machine).exists()


def test_record_of_somebody_else_is_refused(machine: Machine) -> None:
    machine.write(record.PLACE, '{"schema": 1}')
    with pytest.raises(ConfigError, match="is not a record of bolide doctor"):
        restore(machine)
    machine.write(record.PLACE, '{"schema": 2, "profile": "race", "changes": []}')
    with pytest.raises(ConfigError, match="written by another version of bolide"):
        restore(machine)


def test_real_settings_require_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    source = session.Source()
    assert source.is_real
    with pytest.raises(ConfigError, match="needs root; run it again with sudo"):
        session._require_root(source)
