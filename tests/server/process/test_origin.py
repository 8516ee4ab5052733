"""How a process was started: its command, its folder and its environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from bolide.server.process import origin

PYTHON = "/venv/bin/python"


def script(folder: Path, first_line: str, mode: int = 0o755) -> str:
    path = folder / "bolide"
    path.write_text(f"{first_line}\npass\n")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("first_line", "interpreter"),
    [
        (f"#!{PYTHON}", [PYTHON]),
        (f"#! {PYTHON} -s", [PYTHON, "-s"]),
        ("#!/usr/bin/env python3", ["python3"]),
    ],
)
def test_a_script_is_started_again_as_a_script(
    tmp_path: Path, first_line: str, interpreter: list[str]
) -> None:
    path = script(tmp_path, first_line)
    started = [*interpreter, path, "serve", "app:app"]
    assert origin.command(started, PYTHON) == [path, "serve", "app:app"]


@pytest.mark.parametrize(
    ("first_line", "mode"), [("#!/other/python", 0o755), (f"#!{PYTHON}", 0o644), ("pass", 0o755)]
)
def test_a_script_that_does_not_start_this_interpreter_is_an_argument(
    tmp_path: Path, first_line: str, mode: int
) -> None:
    path = script(tmp_path, first_line, mode)
    assert origin.command([PYTHON, path, "x"], PYTHON) == [PYTHON, path, "x"]


def test_the_interpreter_is_started_by_the_name_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert origin.command(["./python", "-m", "bolide"], sys.executable)[0] == "./python"
    assert origin.command(["a name", "-m", "bolide"], sys.executable)[0] == sys.executable
    assert origin.command([], sys.executable) == [sys.executable]


def test_a_folder_has_the_name_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "release").mkdir()
    (tmp_path / "other").mkdir()
    link = tmp_path / "current"
    link.symlink_to("release")
    monkeypatch.chdir(link)
    real = str(tmp_path / "release")
    assert origin.folder({"PWD": str(link)}) == str(link)
    for other in ("", "current", str(tmp_path / "other"), str(tmp_path / "none")):
        assert origin.folder({"PWD": other}) == real
    shutil.rmtree(real)
    assert origin.folder({"PWD": str(link)}) == ""


def test_sockets_of_systemd_are_for_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("KEPT", "yes")
    environ = origin.Origin.of_this_process().environ
    assert environ["KEPT"] == "yes"
    assert not {"LISTEN_FDS", "LISTEN_PID"} & set(environ)
