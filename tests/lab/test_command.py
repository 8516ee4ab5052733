"""The command `bolide race`, as a user calls it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.lab.command import cpus_of, processors_of
from bolide.lab.record import journal, schema
from lab.tiny_race import CPU
from support.server import clean_environ, command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

STUDY = """
title = "Tiny"
content = "OK"
duration_s = 0.3
rounds = 1
contestants = ["ceiling", "bolide-wsgi"]
[[workload]]
name = "short"
tools = ["bolide"]
connections = 4
[[published]]
contestant = "bolide-wsgi"
workload = "short-bolide"
requests_per_s = 123456789.0
does_not_hold = "nobody measured it"
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
    lines = [json.loads(line) for line in output.splitlines()]
    found = {each["name"]: each for each in lines if each["kind"] != "study"}
    assert found["bolide-wsgi"]["state"] == "ready"
    assert found["bolide-wsgi"]["version"]
    assert found["uvicorn"]["state"] == "needs set-up"
    assert found["uvicorn"]["reason"] == "bolide race setup uvicorn"
    assert (found["bolide"]["kind"], found["bolide"]["state"]) == ("tool", "ready")
    assert all(each["reason"] for each in found.values() if each["state"] != "ready")


def test_the_keys_of_the_list_are_those_of_the_documentation(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    _, output, _ = command("race", "list", "--json", cwd=tmp_path, env=env)
    keys: dict[str, set[str]] = {}
    lines = [json.loads(line) for line in output.splitlines()]
    for each in lines:
        assert keys.setdefault(each["kind"], set(each)) == set(each)
    page = (ROOT / "docs" / "race.md").read_text().partition("\n## The list as JSON\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page.partition("\n## ")[0], re.MULTILINE)
    assert {kind: {"kind", *re.findall(r"`(\w+)`", text)} for kind, text in rows} == keys
    studies = {each["name"]: each for each in lines if each["kind"] == "study"}
    documents = ["php", "pipelining", "python-common"]
    own = ["tls-http2", "websocket", "wsgi"]
    assert [*studies] == ["aiohttp-uvloop", "bench", "bench-servers", *documents, *own]
    assert studies["pipelining"]["rounds"] == 7
    assert studies["pipelining"]["title"] == "A million requests per second with Python"
    assert "pipelined-wrk" in studies["pipelining"]["workloads"]
    assert {"ceiling", "japronto"} <= set(studies["pipelining"]["contestants"])


def test_list_says_how_something_is_installed(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    code, output, errors = command("race", "list", "--how", "uvicorn", cwd=tmp_path, env=env)
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[:3] == [
        "uvicorn: uvicorn (uvloop, httptools)",
        "  needs set-up, bolide race setup uvicorn",
        "  bolide race setup uvicorn:",
    ]
    assert lines[3] == "    python3 -m venv FOLDER"


@pytest.mark.parametrize(
    ("allowed", "wanted", "server", "load"),
    [
        ({0}, 1, (0,), (0,)),
        ({0, 1}, 1, (0,), (1,)),
        ({0, 1, 2}, 2, (0,), (1, 2)),
        ({0, 1, 2, 3}, 2, (0, 1), (2, 3)),
        ({1, 3, 5, 7, 9}, 2, (1, 3), (5, 7, 9)),
    ],
)
def test_the_server_has_the_documents_processors_where_there_are_as_many_left(
    allowed: set[int],
    wanted: int,
    server: tuple[int, ...],
    load: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: allowed)
    assert cpus_of(None, wanted) == (server, load)
    assert (processors_of("wsgi"), processors_of("pipelining"), processors_of(None)) == (2, 1, 1)


def test_a_list_that_is_piped_cuts_no_name(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    code, output, _ = command("race", "list", cwd=tmp_path, env=env)
    rows = [line.split() for line in output.splitlines()]
    assert code == 0
    assert ["needs", "set-up", "bolide", "race", "setup", "django-bolide-asgi"] in [
        row[2:] for row in rows if row[:1] == ["django-bolide-asgi"]
    ]
    assert rows[-1][:2] == ["study", "wsgi:"]
    assert any(row[:1] == ["webbench"] for row in rows)


def test_a_study_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    code, output, errors = command(
        "race", "tiny.toml", "--cpus", f"server={CPU}", f"load={CPU}", "--out", "out", cwd=tmp_path
    )
    assert code == 0, errors
    assert output == "results: out/results.jsonl\nreport:  bolide race report out\n"
    assert "bolide-wsgi" in errors and "Tiny" in errors
    assert "123,456,789 *" in errors
    said = "123,456,789 requests/s (short-bolide): nobody measured it"
    assert errors.splitlines()[-1].endswith(said), errors
    found = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert {each.contestant for each in found} == {"ceiling", "bolide-wsgi"}
    assert all(each.failure is None for each in found), found


def test_a_module_in_place_of_a_study_is_an_application(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APPLICATION)
    code, _, errors = command("race", "shop", cwd=tmp_path)
    says = "no study 'shop'; did you mean `bolide race --app shop`?"
    assert (code, errors) == (2, f"bolide: error: {says}\n")


def test_the_help_says_where_the_options_of_a_race_are(tmp_path: Path) -> None:
    code, output, _ = command("race", "--help", cwd=tmp_path)
    assert code == 0
    assert "`bolide race run --help` the options of a race" in " ".join(output.split())


WITHOUT_THE_EXTRA = """
import sys
sys.modules["rich"] = sys.modules["bolide_lab"] = None
from bolide.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", ["run --help", "pipelining --help", "compare -h", "list --help"])
def test_the_help_needs_nothing_of_the_extra(words: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, "race", *words.split()],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: bolide race ")


def test_a_contestant_outside_the_study_is_added_with_a_remark(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    words = ("tiny.toml", "--only", "bolide-asgi,bolide-wsgi", "--cpus", f"server={CPU}")
    code, _, errors = command("race", *words, f"load={CPU}", "--out", "out", cwd=tmp_path)
    assert code == 0, errors
    assert "added to the study tiny: bolide-asgi" in errors.splitlines()
    found = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert {each.contestant for each in found} == {"bolide-asgi", "bolide-wsgi"}


def test_an_application_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(APPLICATION)
    words = ("--app", "mysite", "--only", "bolide-wsgi", "--quick", "--duration", "0.3")
    code, _, errors = command("race", *words, "--out", "out", cwd=tmp_path)
    assert code == 0, errors
    assert "--quick skips c10, c1000" in errors.splitlines()
    [found] = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert (found.contestant, found.failure) == ("bolide-wsgi", None), found
    assert found.ok


READING = """
from pathlib import Path
TEXT = Path("static/text").read_bytes()

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [TEXT]
"""


def test_an_application_runs_in_the_users_folder_without_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/notes.py").write_text(READING)
    (tmp_path / "static").mkdir()
    (tmp_path / "static/text").write_text("mine")
    (tmp_path / "bolide.toml").write_text("workers = 'none'\n")
    words = ("--app", "site/notes.py:app", "--only", "bolide-wsgi", "--quick", "--duration", "0.3")
    code, _, errors = command("race", *words, "--out", "out", cwd=tmp_path)
    assert code == 0, errors
    [found] = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert (found.contestant, found.failure) == ("bolide-wsgi", None), found
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "bolide.toml",
        "out",
        "site",
        "static",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "no study 'nonsense'; there are aiohttp-uvloop, bench, bench-servers"),
        (("reprot",), "no study 'reprot'; did you mean `bolide race report`?\n"),
        (("run", "pipelinig"), "no study 'pipelinig'; did you mean `bolide race pipelining`?\n"),
        (("main:app",), "no study 'main:app'; did you mean `bolide race --app main:app`?\n"),
        (("main.py", "--quick"), "no study 'main.py'; did you mean `bolide race --app main.py`?\n"),
        (
            ("bench", "--only", "ceiling,uvicorn"),
            "uvicorn is not in the study bench, whose workloads are for certain contestants; it "
            "has ceiling, bolide-native, bolide-async, bolide-numbered, japronto, japronto-numbered"
            ", nginx\n",
        ),
        (("run",), "name a study (bolide race list) or an application"),
        (("--app", "not there"), "--app needs module:attribute"),
        (("--app", "nowhere.py:app"), "no file nowhere.py in "),
        (("--app", "nowhere:app"), "cannot import nowhere:app: ModuleNotFoundError"),
        (("php", "--only", "nonsense"), "no contestant 'nonsense'"),
        (
            ("php", "--workload", "nonsense"),
            "no workload has that name; the study has short-",
        ),
        (("php", "--cpus", "server=0", "laod=0"), "--cpus needs both: --cpus server=0 load=1"),
        (("php", "--cpus", "server=x", "load=0"), "'x' is not a list of processors"),
        (("php", "--cpus", "server=9999", "load=0"), "processors 9999 are not all among"),
        (("php", "--cpus", "server=0-999999999999", "load=0"), "processors 0-999999999999 are not"),
        (("php", "--cpus", "server=3-1", "load=0"), "processors 3-1 are not all among"),
        (
            ("php", "--rounds", "0"),
            "Invalid value for '--rounds': '0' is zero; leave the",
        ),
        (("php", "--duration", "nan"), "Invalid value for '-d' / '--duration': 'nan' is not a dur"),
        (
            ("php", "--duration", "25h"),
            "--duration 90000 is not at least 0.001 s and at most 86,400 s",
        ),
        (("php", "--until", "0%"), "Invalid value for '--until': '0%' is not a percentage; give"),
        (("php", "--resume"), "--resume needs the folder of the race; name it with --out"),
        (("php", "--target", "/x"), "--interface and --target apply to --app only"),
        (("--app", "x", "--target", "x y"), "--target 'x y' is not a path as in a request"),
        (("php", "--tool", "siege"), "no tool is called 'siege'; there are bolide, ab, wrk"),
        (("nowhere.toml",), "no study 'nowhere.toml'; there are aiohttp-uvloop"),
        (("setup", "nonsense"), "no contestant 'nonsense'"),
        (("list", "--how", "nonsense"), "no contestant 'nonsense'"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, output, errors = command("race", *words, cwd=tmp_path)
    assert (code, output) == (2, "")
    assert errors.startswith(f"bolide: error: {message}"), errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("tiny.toml", "cannot write tiny.toml: it is not a folder"),
        ("tiny.toml/x", "cannot write tiny.toml/x: it is not a folder"),
        ("/proc/x", "cannot write /proc/x: No such file or directory"),
    ],
)
def test_a_folder_that_cannot_be_written_is_one_line(
    out: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    code, output, errors = command("race", "tiny.toml", "--out", out, cwd=tmp_path)
    assert (code, output) == (2, "")
    assert errors.splitlines()[-1] == f"bolide: error: {message}"
    assert (tmp_path / "tiny.toml").read_text() == STUDY


DIFFERING = """
import itertools

numbers = itertools.count(10)

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"%d" % next(numbers)]
"""


def test_an_application_with_different_responses_has_no_figure(tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(DIFFERING)
    words = ("--app", "mysite", "--only", "bolide-wsgi", "--quick")
    code, _, errors = command("race", *words, "--out", "out", cwd=tmp_path)
    assert code == 3
    mistake = "no trial has a figure; see the failures above and in the results"
    assert errors.splitlines()[-1] == f"bolide: error: {mistake}"
    [found] = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert found.failure == schema.Failure(
        "wrong_body", "2 bytes b'11', not 2 bytes b'10'; all responses must be the same"
    )


def test_a_race_with_figures_of_the_ceiling_only_failed(tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(DIFFERING)
    words = ("--app", "mysite", "--only", "ceiling,bolide-wsgi", "--quick", "--duration", "0.3")
    code, _, errors = command("race", *words, "--out", "out", cwd=tmp_path)
    assert code == 3
    assert errors.splitlines()[-1] == (
        "bolide: error: no contestant except the ceiling has a figure; see the failures above, "
        "and `bolide race list` for what needs set-up"
    )
    found = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert {each.contestant: each.failure is None for each in found} == {
        "ceiling": True,
        "bolide-wsgi": False,
    }


def test_another_application_is_another_race(tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(f"{APPLICATION}\nother = app\n")
    words = ("--only", "bolide-wsgi", "--quick", "--duration", "0.3", "--out", "out")
    code, _, errors = command("race", "--app", "mysite", *words, cwd=tmp_path)
    assert code == 0, errors
    again = ("race", "--app", "mysite:other", *words, "--resume")
    code, _, errors = command(*again, cwd=tmp_path)
    wanted = "bolide: error: out has another race (mysite, other settings); name another --out\n"
    assert (code, errors) == (2, wanted)


ROWS = """
[turns]
seconds = 0.2
[[row]]
title = "twice the ceiling"
contestant = "bolide-wsgi"
workload = "short-bolide"
at_least = { ceiling = RATIO }
"""


@pytest.mark.parametrize(("ratio", "expected"), [("0.001", 0), ("1000.0", 1)])
def test_the_exit_code_says_whether_a_row_is_below_its_bar(
    ratio: str, expected: int, tmp_path: Path
) -> None:
    text = STUDY.partition("[[published]]")[0] + ROWS.replace("RATIO", ratio)
    (tmp_path / "mine.toml").write_text(text)
    code, output, errors = command(
        "race", "mine.toml", "--cpus", f"server={CPU}", f"load={CPU}", "--out", "out", cwd=tmp_path
    )
    assert code == expected, errors
    assert "What must be reached" in errors
    assert ("below the bar: twice the ceiling, ceiling" in errors) == bool(expected)
    again, _, errors = command("race", "run", "mine.toml", "--until", "2%", cwd=tmp_path)
    assert (again, "--until is not for a study with turns" in errors) == (2, True), errors


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (">/dev/full", 3, "bolide: error: cannot print the results: No space left on device\n"),
        ("| head -n 1 >/dev/null; exit ${PIPESTATUS[0]}", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_a_list_that_cannot_be_printed_is_one_line(
    given: str, code: int, says: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        ["/bin/bash", "-c", f"{sys.executable} -m bolide race list {given}"],
        cwd=tmp_path,
        env=clean_environ() | {"XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, says)


@pytest.mark.parametrize(
    "given", ["2>/dev/full", "2>&-", "2>&1 | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}"]
)
def test_a_race_goes_on_without_a_reader(given: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    line = f"{sys.executable} -m bolide race tiny.toml --out out"
    done = subprocess.run(
        ["/bin/bash", "-c", f"{line} {given}"],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    trials = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Trial)]
    assert len(trials) == 2 and all(each.failure is None for each in trials)
