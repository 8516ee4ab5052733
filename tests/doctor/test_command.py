"""`bolide doctor` as a user sees it: table, JSON, colours, exit codes, mistakes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from bolide.config.settings import table as options
from bolide.doctor import table
from bolide.doctor.finding import BACKLOG, Load, Verdict
from doctor.machine import Machine
from support.server import clean_environ

pytestmark = pytest.mark.slow

MANY = ("--connections", "10000", "--new-per-second", "2000")


def doctor(machine: Machine, *arguments: str, root: bool = True) -> tuple[int, str, str]:
    where = ("--root", str(machine.root)) if root else ()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bolide", "doctor", *where, *arguments],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done.returncode, done.stdout, done.stderr


def test_what_limits_and_a_count_of_the_others(machine: Machine) -> None:
    code, out, errors = doctor(machine, *MANY)
    assert (code, errors) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "Linux 6.18.44-arch1, judged for 10,000 connections, 2,000 new ones per second, role any"
    )
    assert lines[2].split() == ["verdict", "what", "value", "default"]
    names = [line.split()[1] for line in lines if line.startswith("limits")]
    assert names == ["requested", "net.core.somaxconn", "net.ipv4.ip_local_port_range"]
    assert re.fullmatch(r"3 limits; 1 advice, 1 unknown, 1 gone, \d+ fine \(--all .*\)", lines[-1])
    assert not [line for line in lines if line.startswith(("fine", "gone"))]


def test_all_shows_every_row_the_most_urgent_first(machine: Machine) -> None:
    _, out, _ = doctor(machine, *MANY, "--all")
    verdicts = [line.split()[0] for line in out.splitlines() if line and line[0] in "laugf"]
    assert verdicts == sorted(verdicts, key=[each.value for each in Verdict].index)
    assert set(verdicts) == {each.value for each in Verdict}
    assert "Deleted" not in out and "net.ipv4.tcp_tw_recycle" in out


def test_nothing_limits(machine: Machine) -> None:
    code, out, _ = doctor(machine, "--check", "--role", "server")
    assert code == 0, out
    assert out.splitlines()[-1].startswith("no limits; 0 advice, 1 unknown, 1 gone,")


def test_check_fails_when_something_limits(machine: Machine) -> None:
    assert doctor(machine, "--check", *MANY)[0] == 1
    assert doctor(machine, "--check", *MANY, "--json")[0] == 1


def test_json_shape(machine: Machine) -> None:
    code, out, errors = doctor(machine, "--json", *MANY, "--role", "loopback")
    assert (code, errors) == (0, "")
    found = json.loads(out)
    assert found.keys() == {"schema", "kernel", "load", "counts", "findings"}
    assert (found["schema"], found["kernel"]) == (2, "6.18.44-arch1")
    assert found["load"] == {
        "connections": 10000,
        "new_per_second": 2000,
        "backlog": 2048,
        "role": "loopback",
        "port": None,
    }
    assert sum(found["counts"].values()) == len(found["findings"])
    keys = {"name", "group", "value", "verdict", "why", "default", "does", "advice", "fix"}
    assert all(each.keys() == keys for each in found["findings"])
    by_name = {each["name"]: each for each in found["findings"]}
    assert by_name["net.ipv4.tcp_tw_recycle"]["value"] is None
    somaxconn = by_name["net.core.somaxconn"]
    assert (somaxconn["value"], somaxconn["default"]) == ("4096", "4096")
    assert (somaxconn["verdict"], somaxconn["group"]) == ("limits", "kernel setting")
    assert somaxconn["fix"].startswith("sysctl -w net.core.somaxconn=16384")


def test_colours_only_where_they_are_asked_for(machine: Machine) -> None:
    found = machine.examine(Load(connections=10_000))
    plain = table.render(found, is_whole=True, width=80, is_coloured=False)
    coloured = table.render(found, is_whole=True, width=80, is_coloured=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\x1b[31;1mlimits\x1b[0m" in coloured
    assert "\x1b" not in doctor(machine, "--all")[1]


@pytest.mark.parametrize(("environ", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_terminal_has_colours_unless_it_says_no(
    machine: Machine, environ: dict[str, str], is_coloured: bool
) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "bolide", "doctor", "--root", str(machine.root), *MANY]
    plain = {name: value for name, value in clean_environ().items() if name != "NO_COLOR"}
    process = subprocess.Popen(command, env={**plain, **environ}, stdout=theirs)
    os.close(theirs)
    out = b""
    with suppress(OSError):  # the terminal's end, once nobody has its other side
        while data := os.read(ours, 4096):
            out += data
    os.close(ours)
    assert process.wait(20) == 0
    assert (b"\x1b[31;1mlimits\x1b[0m" in out, b"limits" in out) == (is_coloured, True)


@pytest.mark.parametrize("width", [10, 60, 100])
def test_text_keeps_to_the_width(machine: Machine, width: int) -> None:
    out = table.render(machine.examine(), is_whole=True, width=width, is_coloured=False)
    below = [line for line in out.splitlines() if line.startswith("   ")]
    longest_word = max(len(word) for line in below for word in line.split())
    assert max(map(len, below)) <= max(width, table.WIDTH_MIN, longest_word + 13)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--connections", "0"), "Invalid value for '-c' / '--connections': '0' is zero; leave"),
        (("--new-per-second", "nan"), "Invalid value for '--new-per-second': 'nan' is not a whole"),
        (("--role", "proxy"), "Invalid value for '--role': 'proxy' is not one of"),
        (("--tune", "fast"), "Invalid value for '--tune': 'fast' is not one of 'server'"),
        (("--tune", "race", "--restore"), "--tune and --restore are opposites; give only one"),
        (("--", "ls"), "a command goes with --tune: bolide doctor --tune race -- CMD..."),
        (("--dry-run",), "--dry-run goes with --tune"),
    ],
)
def test_mistake_is_one_line(machine: Machine, arguments: tuple[str, ...], says: str) -> None:
    code, out, errors = doctor(machine, *arguments)
    assert (code, out) == (2, "")
    assert errors.startswith(f"bolide: error: {says}") and errors.count("\n") == 1


def test_this_machine_can_be_examined(machine: Machine) -> None:
    code, out, errors = doctor(machine, "--json", "--port", "1", root=False)
    assert (code, errors) == (0, "")
    found = json.loads(out)["findings"]
    assert all(each["why"] for each in found)
    assert all(
        each["verdict"] in ("unknown", "gone", "fine") for each in found if not each["value"]
    )


def test_a_port_on_which_nothing_listens_is_shown(machine: Machine) -> None:
    _, out, _ = doctor(machine, "--port", "1", root=False)
    assert "unknown   listener on port 1" in out
    assert "nothing listens on TCP port 1 in this namespace." in out


def test_backlog_is_the_default_of_serve() -> None:
    [backlog] = [each for each in options() if each.name == "backlog"]
    assert backlog.default == BACKLOG
