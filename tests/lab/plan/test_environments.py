"""What is there of a contestant, how the rest is made, and what is remembered of a failure.

Fake programs stand in for interpreters, pip, go, cargo and apt-get; nothing is downloaded.
"""

from __future__ import annotations

import fcntl
import platform
import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from bolide import cli
from bolide.lab.folders import cache_folder
from bolide.lab.plan import contestant as contestants
from bolide.lab.plan import environments, packages
from bolide.lab.plan.contestant import Contestant, Entry, Setup
from bolide.lab.plan.environments import SetupError, Status
from bolide.lab.tools import TOOLS
from lab.tiny_race import renamed

APT = "apt-get install --no-install-recommends"

INTERPRETER = """\
#!/bin/sh
echo "$*" >> "$CALLS"
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip")
    if [ -e "$CALLS.broken" ]; then
        echo "collecting" >&2
        echo "ERROR: No matching distribution found" >&2
        echo "hint: none" >&2
        exit 1
    fi
    packages="$(dirname "$0")/../lib/python3.99/site-packages"
    for each; do
        case "$each" in *==*) mkdir -p "$packages/${each%%==*}-${each##*==}.dist-info" ;; esac
    done ;;
esac
"""
"""A CPython 3.99 that makes environments of itself, and installs by making empty folders."""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    (tmp_path / "programs").mkdir()


def program(tmp_path: Path, name: str, script: str) -> Path:
    """Put a fake program on the PATH."""
    path = tmp_path / "programs" / name
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def interpreter(tmp_path: Path) -> None:
    """Put the fake interpreter where a version manager has its own."""
    path = tmp_path / "pyenv" / "versions" / "3.99.0" / "bin" / "python3.99"
    path.parent.mkdir(parents=True)
    path.write_text(INTERPRETER)
    path.chmod(0o755)


def calls(tmp_path: Path) -> list[str]:
    """Return what the fakes were called with."""
    path = tmp_path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def contestant(requires: tuple[str, ...] = (), **needs: Any) -> Contestant:
    entry = Entry(
        name="x", title="X", interface="own", command=("{python}",), requirements=requires
    )
    return Contestant(key="x", language="C", setup=Setup(**needs), files={}, entry=entry)


def on_399(*requirements: str, **more: Any) -> Contestant:
    return contestant(requirements=requirements, interpreter="3.99", **more)


def silent(text: str) -> None:
    pass


@pytest.mark.parametrize(
    ("needs", "state", "reason"),
    [
        (
            {"programs": ("no-such-server",), "apt": ("b-dev", "a")},
            "needs set-up",
            f"no no-such-server ({APT} a b-dev)",
        ),
        (
            {"programs": ("no-such-server", "sh"), "paths": ("/nowhere/x.h",), "apt": ("a",)},
            "needs set-up",
            f"no no-such-server, /nowhere/x.h ({APT} a)",
        ),
        (
            {"programs": ("no-such-server",), "missing": "build it from source"},
            "cannot run here",
            "no no-such-server: build it from source",
        ),
        (
            {"probe": ("false", "--now"), "missing": "its module is not built in"},
            "cannot run here",
            "`false --now` fails: its module is not built in",
        ),
        (
            {"probe": ("no-such-server",), "apt": ("a",)},
            "needs set-up",
            f"`no-such-server` fails ({APT} a)",
        ),
        (
            {"interpreter": "3.99", "requirements": ("a==1",)},
            "cannot run here",
            "no CPython 3.99 (pyenv install 3.99)",
        ),
        ({"requirements": ("a==1",)}, "needs set-up", "bolide race setup x"),
        ({"go": "go_nethttp"}, "cannot run here", "no go on the PATH"),
        ({"cargo": "rust_hyper"}, "cannot run here", "no cargo on the PATH"),
    ],
)
def test_what_is_missing_is_named(
    needs: dict[str, Any], state: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = environments.find_program
    monkeypatch.setattr(
        environments, "find_program", lambda name: None if name in ("go", "cargo") else which(name)
    )
    assert environments.examine(contestant(**needs)) == Status(state, reason)  # type: ignore[arg-type]


def test_what_is_there_is_ready() -> None:
    ready = contestant(programs=("sh",), paths=("/bin/sh",), probe=("true",), apt=("a",))
    assert environments.examine(ready) == Status("ready", version=platform.python_version())
    assert not packages.lacks_packages(ready)


def test_a_substitute_for_an_interpreter_that_fails_is_none(tmp_path: Path) -> None:
    program(tmp_path, "python3.99", "exit 127")
    assert environments.examine(on_399("a==1")).reason == "no CPython 3.99 (pyenv install 3.99)"
    program(tmp_path, "python3.99", "exit 0")
    assert environments.examine(on_399("a==1")).state == "needs set-up"


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    interpreter(tmp_path)
    said: list[str] = []
    wanted = on_399("Flask==3.1.3", "gunicorn==27.0.1", distribution="gunicorn")
    environments.prepare(wanted, said.append)
    folder = tmp_path / "cache" / "bolide" / "race" / "x"
    assert environments.folder_of(wanted) == folder
    assert environments.python_of(wanted) == folder / "bin" / "python"
    assert environments.examine(wanted) == Status("ready", version="27.0.1")
    made = [line for line in calls(tmp_path) if not line.startswith("-c")]
    pip = "-m pip install --quiet --disable-pip-version-check Flask==3.1.3 gunicorn==27.0.1"
    assert made == [f"-m venv {folder}", pip]
    assert len(said) == 2 and all(line.startswith("x: ") for line in said)
    environments.prepare(wanted, said.append)
    assert len(said) == 2


def test_pip_runs_once_for_each_line_of_arguments(tmp_path: Path) -> None:
    interpreter(tmp_path)
    environments.prepare(on_399("a==1", install=(("--no-deps", "a==1"), ("b==2",))), silent)
    pip = "-m pip install --quiet --disable-pip-version-check"
    made = [line for line in calls(tmp_path) if line.startswith("-m pip")]
    assert made == [f"{pip} --no-deps a==1", f"{pip} b==2"]


def test_an_environment_of_something_else_is_made_anew(tmp_path: Path) -> None:
    interpreter(tmp_path)
    environments.prepare(on_399("a==1", distribution="a"), silent)
    wanted = on_399("a==2", distribution="a")
    assert environments.examine(wanted) == Status("needs set-up", "bolide race setup x")
    environments.prepare(wanted, silent)
    assert environments.examine(wanted) == Status("ready", version="2")
    [left] = environments.folder_of(wanted).glob("lib/python*/site-packages/*")
    assert left.name == "a-2.dist-info"


def test_a_failure_is_remembered_until_it_is_tried_again(tmp_path: Path) -> None:
    interpreter(tmp_path)
    (tmp_path / "calls.broken").touch()
    with pytest.raises(SetupError) as caught:
        environments.prepare(on_399("a==1"), silent)
    pip = "install --quiet --disable-pip-version-check a==1"
    why = f"`{pip}` failed: ERROR: No matching distribution found"
    assert str(caught.value) == why
    assert environments.examine(on_399("a==1")) == Status(
        "cannot run here", f"set-up failed: {why}"
    )
    (tmp_path / "calls.broken").unlink()
    environments.prepare(on_399("a==1"), silent)
    assert environments.examine(on_399("a==1")) == Status("ready", version="a 1")


def test_two_set_ups_of_one_do_not_meet(tmp_path: Path) -> None:
    interpreter(tmp_path)
    folder = environments.folder_of(on_399("a==1"))
    folder.mkdir(parents=True)
    said: queue.Queue[str] = queue.Queue()
    with folder.with_name("x.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=environments.prepare, args=(on_399("a==1"), said.put))
        second.start()
        assert said.get(timeout=10) == "x: waiting for another set-up of it"
        assert said.empty() and calls(tmp_path) == []
    second.join(10)
    assert environments.examine(on_399("a==1")) == Status("ready", version="a 1")


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folder = tmp_path / "file" / "bolide" / "race" / "x"
    with pytest.raises(SetupError) as caught:
        environments.prepare(on_399("a==1"), silent)
    assert str(caught.value) == f"cannot write {folder}: Not a directory"


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache" / "bolide" / "race"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "bolide" / "race"


@pytest.mark.parametrize(
    ("requires", "distribution", "version"),
    [
        ((), "granian", "2.8.7"),
        ((), "Not_There", None),
        (("Flask==3.1.3",), "", "granian 2.8.7, uvloop 0.23.0, Flask 3.1.3"),
        (("Flask==3.1.3",), "granian", "granian 2.8.7, uvloop 0.23.0, Flask 3.1.3"),
    ],
)
def test_versions_of_distributions(
    requires: tuple[str, ...], distribution: str, version: str | None, tmp_path: Path
) -> None:
    interpreter(tmp_path)
    both = ("granian==2.8.7", "uvloop==0.23.0", *requires)
    found = contestant(requires, requirements=both, interpreter="3.99", distribution=distribution)
    environments.prepare(found, silent)
    assert environments.examine(found) == Status("ready", version=version)


def test_versions_without_an_environment() -> None:
    assert environments.examine(contestant(distribution="no-such-thing")).version is None
    assert environments.examine(contestant(distribution="pytest")).version == pytest.__version__
    shown = contestant(version=("sh", "-c", "echo server/1.24.0 of 2 >&2"))
    assert environments.examine(shown).version == "1.24.0"
    assert environments.examine(contestant(version=("false",))).version is None
    assert (
        environments.examine(contestant(version=("sh", "-c", "printf '\\377 none'"))).version
        is None
    )


@pytest.mark.parametrize(
    ("tool", "script", "file", "text", "distribution", "version"),
    [
        (
            "go",
            'mkdir -p "$(dirname "$3")"; cp go.mod "$3"',
            "go.mod",
            "module x\n\nrequire example.org/fast v1.2.3\n",
            "example.org/fast",
            "1.2.3",
        ),
        (
            "cargo",
            'mkdir -p "$6/bin"; cp Cargo.lock "$6/bin/server"',
            "Cargo.lock",
            '[[package]]\nname = "hyper-util"\nversion = "0.1.9"\n'
            '[[package]]\nname = "hyper"\nversion = "1.8.0"\n',
            "hyper",
            "1.8.0",
        ),
    ],
)
def test_go_and_cargo_build_a_copy_and_report_the_locked_version(
    tool: str,
    script: str,
    file: str,
    text: str,
    distribution: str,
    version: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environments, "APPS", tmp_path / "apps")
    source = tmp_path / "apps" / "source-of-x"
    source.mkdir(parents=True)
    (source / file).write_text(text)
    program(tmp_path, tool, f"{script}")
    needs: dict[str, Any] = {tool: "source-of-x", "distribution": distribution}
    wanted = contestant(**needs)
    assert environments.examine(wanted).state == "needs set-up"
    environments.prepare(wanted, silent)
    assert (environments.folder_of(wanted) / "bin" / "server").read_text() == text
    assert environments.examine(wanted) == Status("ready", version=version)
    (source / "main").write_text("changed")
    assert environments.examine(wanted).state == "needs set-up"


def test_every_contestant_that_lacks_something_can_say_what_to_do() -> None:
    for each in contestants.own().values():
        needs = each.setup
        if needs.programs or needs.paths or needs.probe:
            assert needs.apt or needs.missing, each.name


def test_pip_gets_the_contestants_variables(tmp_path: Path) -> None:
    interpreter(tmp_path)
    path = tmp_path / "pyenv" / "versions" / "3.99.0" / "bin" / "python3.99"
    path.write_text(path.read_text().replace('echo "$*"', 'echo "$* ($CFLAGS)"'))
    wanted = on_399("a==1", variables={"CFLAGS": "-Wno-error"})
    environments.prepare(wanted, silent)
    assert calls(tmp_path)[-1].endswith("a==1 (-Wno-error)")
    assert environments.examine(wanted).state == "ready"
    other = on_399("a==1", variables={"CFLAGS": "-O3"})
    assert environments.examine(other).state == "needs set-up"


class TestCommand:
    """`bolide race setup`, of one contestant that lacks a program."""

    LACKING = f"x: needs set-up, no no-such-server ({APT} a b-dev)\n"

    @pytest.fixture(autouse=True)
    def lacking(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lacking = contestant(programs=("no-such-server",), apt=("b-dev", "a"))
        monkeypatch.setattr(contestants, "own", lambda: {"x": lacking})
        monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")
        program(tmp_path, "apt-cache", "exit 0")

    def run(self, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["race", "setup", "x", *words])
        return (ended.value.code, *capfd.readouterr())

    def test_the_line_and_what_is_missing_are_reported(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        program(tmp_path, "apt-get", 'echo "$*" >> "$CALLS"')
        said = f"from the distribution: {APT} a b-dev\n{self.LACKING}"
        said += "0 of 1 contestants and tools are ready\n"
        assert self.run(capfd) == (0, said, "")
        assert calls(tmp_path) == []

    def test_system_runs_that_line(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        server = tmp_path / "programs" / "no-such-server"
        program(tmp_path, "apt-get", f'echo "$*" >> "$CALLS"; cp "$0" {server}; echo "unpacking"')
        said = f"from the distribution: {APT} a b-dev\n1 of 1 contestants and tools are ready\n"
        assert self.run(capfd, "--system") == (0, said, "unpacking\nunpacking\n")
        line = "install --yes -o Dpkg::Options::=--force-confold --no-install-recommends a b-dev"
        assert calls(tmp_path) == ["update", line]

    def test_one_that_fails_is_one_line(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        program(tmp_path, "apt-get", "exit 100")
        code, _, errors = self.run(capfd, "--system")
        fix = "it needs root (sudo)"
        assert (code, errors) == (2, f"bolide: error: apt-get install failed; {fix}\n")

    def test_a_system_without_it_is_one_line(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path / "programs"))
        code, _, errors = self.run(capfd, "--system")
        wanted = "bolide: error: cannot run apt-get: No such file or directory\n"
        assert (code, errors) == (2, wanted)

    def test_tools_are_set_up_too(
        self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("wrk", "webbench"):
            monkeypatch.setattr(type(TOOLS[name]), "version", lambda self: None)
        code, output, errors = self.run(capfd, "wrk", "webbench")
        assert (code, errors) == (0, "")
        assert output.splitlines() == [
            f"from the distribution: {APT} a b-dev wrk",
            self.LACKING.rstrip(),
            f"wrk: needs set-up, {APT} wrk",
            f"webbench: cannot run here, {TOOLS['webbench'].missing}",
            "0 of 3 contestants and tools are ready",
        ]

    def test_what_fails_is_reported_and_the_others_are_made(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interpreter(tmp_path)
        (tmp_path / "calls.broken").touch()
        both = {"x": on_399("a==1"), "y": renamed(contestant(), "y")}
        monkeypatch.setattr(contestants, "own", lambda: both)
        code, output, errors = self.run(capfd, "y")
        assert code == 3
        failed, ready = output.splitlines()
        assert failed.startswith("x: cannot run here, set-up failed: ")
        assert ready == "1 of 2 contestants and tools are ready"
        said = [line for line in errors.splitlines() if " -m " not in line]
        assert said[0] == "[1/1] x"
        assert said[1].endswith("failed: ERROR: No matching distribution found")
        assert said[2:] == ["bolide: error: 1 could not be set up; see the reasons above"]
