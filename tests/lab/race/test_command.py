"""The command `bolide race`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bolide.lab import results
from running import command

STUDY = """
title = "Tiny"
document = "none"
content = "OK"
duration_s = 0.3
rounds = 1
contestants = ["ceiling", "bolide-wsgi"]
[[workload]]
name = "short"
tools = ["bolide"]
connections = 4
"""

APPLICATION = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"mine"]
"""


def test_list_says_of_every_contestant_whether_it_can_run(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    code, output, errors = command("race", "list", "--json", cwd=tmp_path, env=env)
    assert (code, errors) == (0, "")
    found = {each["name"]: each for each in map(json.loads, output.splitlines())}
    assert found["bolide-wsgi"]["state"] == "ready"
    assert found["bolide-wsgi"]["version"]
    assert found["uvicorn"]["state"] == "needs set-up"
    assert found["uvicorn"]["reason"] == "bolide race setup uvicorn"
    assert all(each["reason"] for each in found.values() if each["state"] != "ready")


def test_a_study_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    code, output, errors = command(
        "race", "tiny.toml", "--cpus", "server=0", "load=0", "--out", "out", cwd=tmp_path
    )
    assert code == 0, errors
    assert output == "results: out/results.jsonl\nreport:  bolide race report out\n"
    assert "bolide-wsgi" in errors and "Tiny" in errors
    found = [each for each in results.read(tmp_path / "out") if isinstance(each, results.Trial)]
    assert {each.contestant for each in found} == {"ceiling", "bolide-wsgi"}
    assert all(each.failure is None for each in found), found


def test_an_application_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(APPLICATION)
    words = ("--app", "mysite", "--only", "bolide-wsgi", "--quick", "--duration", "0.3")
    code, _, errors = command("race", *words, "--out", "out", cwd=tmp_path)
    assert code == 0, errors
    [found] = [each for each in results.read(tmp_path / "out") if isinstance(each, results.Trial)]
    assert (found.contestant, found.failure) == ("bolide-wsgi", None), found
    assert found.ok


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "no study 'nonsense'; there are aiohttp-uvloop, php, pipelining"),
        (("run",), "name a study (bolide race list) or an application"),
        (("--app", "not there"), "--app takes module:attribute"),
        (("--app", "nowhere:app"), "cannot import nowhere:app: ModuleNotFoundError"),
        (("php", "--only", "nonsense"), "no contestant 'nonsense'"),
        (
            ("php", "--workload", "nonsense"),
            "no workload has that name; the study has short-webbench",
        ),
        (("php", "--cpus", "server=0", "laod=0"), "--cpus takes both: --cpus server=0 load=1"),
        (("php", "--cpus", "server=x", "load=0"), "'x' is no list of processors"),
        (("php", "--cpus", "server=9999", "load=0"), "processors 9999 are not all of"),
        (("setup", "nonsense"), "no contestant 'nonsense'"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, output, errors = command("race", *words, cwd=tmp_path)
    assert (code, output) == (2, "")
    assert errors.startswith(f"bolide: error: {message}"), errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
