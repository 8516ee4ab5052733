"""What a study requires: rows that can be judged, and those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.lab.folders import APPS
from bolide.lab.plan import contestant, study
from bolide.lab.plan.requirement import Row, of_rows
from bolide.lab.record.schema import Requirement, with_workloads

STUDY = """
title = "T"
document = ""
duration_s = 2.0
contestants = ["ceiling", "bolide-wsgi"]
[turns]
[[workload]]
name = "kept"
tools = ["bolide"]
connections = 4
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(STUDY + text)
    return str(path)


def test_a_row_makes_a_requirement_of_each_ratio() -> None:
    row = Row(
        title="kept",
        contestant="a",
        workload="w",
        at_least={"b": 2.0},
        at_most={"c": 0.5},
        shown=("d",),
    )
    alike = {"title": "kept", "contestant": "a", "workload": "w"}
    assert of_rows([row]) == (
        Requirement(**alike, against="b", at_least=2.0),
        Requirement(**alike, against="c", at_most=0.5),
        Requirement(**alike, against="d"),
    )
    memory = Row(**alike, measure="memory each", bytes_at_most=10)
    assert of_rows([memory]) == (Requirement(**alike, measure="memory each", at_most=10.0),)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('workload = "x"', "there is no workload 'x'"),
        ("at_least = { uvicorn = 1.0 }", "'uvicorn' does not run 'kept-bolide'"),
        ('contestant = "uvicorn"', "'uvicorn' does not run 'kept-bolide'"),
        ("", "it has no ratio"),
        ("bytes_at_most = 5", "bytes_at_most is for 'memory at start' and 'memory each'"),
        ('measure = "memory each"\nat_least = { ceiling = 1.0 }', "and needed there"),
        ("at_least = { ceiling = 0 }", "Expected `float` > 0"),
        ('measure = "speed"', "Invalid enum value 'speed'"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused(fields: str, message: str, tmp_path: Path) -> None:
    own = {"contestant": '"bolide-wsgi"', "workload": '"kept-bolide"'}
    lines = [f"{name} = {value}" for name, value in own.items() if f"{name} =" not in fields]
    text = "\n".join(['[[row]]\ntitle = "R"', *lines, fields])
    with pytest.raises(ConfigError) as caught:
        study.load(written(tmp_path, text))
    assert message in str(caught.value)


def test_turns_have_no_open_loop(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="turns have neither an open loop nor a network"):
        study.load(written(tmp_path, '[open_loop]\nof = "kept-bolide"'))


def test_a_turn_is_short_and_a_round_has_several(tmp_path: Path) -> None:
    plan = study.load(written(tmp_path, "")).study
    assert (plan.turn_s, plan.duration_s, plan.workloads[0].duration_s) == (0.5, 2.0, 0.5)
    quick = study.shortened(plan, lambda tool: True)
    assert (quick.rounds, quick.duration_s, quick.workloads[0].duration_s) == (1, 1.0, 0.5)
    longer = study.lengthened(plan, 3, 9.0)
    assert (longer.rounds, longer.duration_s, longer.workloads[0].duration_s) == (3, 9.0, 0.5)


def test_a_row_whose_workload_is_left_out_is_left_out() -> None:
    plan = study.load("bench").study
    kept = with_workloads(plan, [each for each in plan.workloads if each.name == "deep-bolide"])
    assert {each.workload for each in kept.requirements} == {"deep-bolide"}
    assert len(kept.requirements) == 6


@pytest.mark.parametrize("name", ["bench", "bench-servers", "tls-http2", "websocket"])
def test_everything_that_is_measured_is_in_a_row(name: str) -> None:
    plan = study.load(name)
    wanted = plan.study.requirements
    sides = {(each.workload, who) for each in wanted for who in (each.contestant, each.against)}
    for load in plan.study.workloads:
        assert load.is_quick and load.contestants, load.name
        for who in load.contestants:
            assert (load.name, who) in sides, (load.name, who)
        for app in (load.app.partition(":")[0], load.companion.removesuffix(".py")):
            assert not app or (APPS / f"{app.replace('.', '/')}.py").is_file(), load.name
    known = contestant.own()
    assert {each for load in plan.study.workloads for each in load.contestants} == {
        *plan.contestants
    }
    assert {*plan.contestants} <= known.keys()


def test_the_bars() -> None:
    """They are what this project promises, so they change only on purpose."""
    found = [
        each for name in ("bench", "bench-servers") for each in study.load(name).study.requirements
    ]
    bars = {
        (each.title, each.against): each.at_least if each.at_most is None else each.at_most
        for each in found
    }
    assert len(bars) == len(found) == 56
    assert bars["def, 24 requests in one send", "ceiling"] == 0.60
    assert bars["def, 24 requests in one send", "japronto"] == 2.0
    assert bars["a connection per request", "nginx"] == 1.0
    assert bars["memory at start", ""] == 30 * 1024 * 1024
    assert bars["memory of an idle connection, of 10,000", ""] == 2048
    assert bars["ASGI, 24 requests in one send", "uvicorn"] == 12.0
    assert bars["WSGI, one request at a time", "uwsgi"] == 3.0
    assert {bars["Flask", each] for each in ("flask-granian", "flask-gunicorn")} == {1.12}
    assert bars["Django, the server's own time", "django-uwsgi"] == 0.3333


def test_the_bars_of_tls_and_http2() -> None:
    found = study.load("tls-http2").study.requirements
    bars = {
        (each.workload, each.contestant, each.against): each.at_least
        for each in found
        if each.at_least is not None
    }
    wanted = {
        ("h2", "native"): {"nginx": 2.5, "nghttpd": 1.0, "hyper": 1.5, "granian-rsgi": 5.0},
        ("h2", "asgi"): {"granian-asgi": 3.5},
        ("h2-long", "asgi"): {"hypercorn": 60.0},
        ("h1", "asgi"): {"uvicorn": 3.5, "granian-asgi": 1.6},
        ("h1", "native"): {"nginx": 1.1},
        ("full", "native"): {"nginx": 0.9},
        ("resumed", "native"): {"nginx": 0.9},
        ("file", "asgi-file"): {"nginx-file": 0.9},
        ("stream", "asgi"): {"granian-asgi": 1.5, "uvicorn": 1.5},
        ("upload", "asgi"): {"granian-asgi": 1.5, "uvicorn": 1.5},
    }
    assert {
        (f"{load}-bolide", f"bolide-{own}-tls", f"{other}-tls"): bar
        for (load, own), others in wanted.items()
        for other, bar in others.items()
    } == bars


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("streams = 2", 'streams are for http_version = "2"'),
        ('http_version = "2"\npipeline_depth = 2', "HTTP/2 has streams"),
        ('http_version = "2"\nis_persistent = false', "connections that stay open"),
        ('tls = "full"', "full handshakes are for a connection per request"),
        ('tls = "resumed"\nis_timed = true', "over HTTP/1.1 without TLS"),
        ('http_version = "2"\ncontent_bytes = 5', "neither content of requests"),
        ('tls = "no"', "Invalid enum value 'no'"),
        ("file_bytes = 0", "Expected `int` >= 1"),
    ],
)
def test_a_load_that_contradicts_itself_is_refused(
    fields: str, message: str, tmp_path: Path
) -> None:
    text = STUDY.replace("connections = 4", f"connections = 4\n{fields}")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        study.load(str(tmp_path / "mine.toml"))
    assert message in str(caught.value)


def test_the_documents_example_is_a_study_with_rows(tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "race.md").read_text()
    part = document.partition("\n## What Bolide must reach\n")[2].partition("```toml\n")[2]
    names = '["ceiling", "bolide-asgi", "uvicorn"]'
    text = STUDY.replace('["ceiling", "bolide-wsgi"]', names).replace('"kept"', '"kept-c100"')
    (tmp_path / "mine.toml").write_text(text.replace("[turns]\n", "") + part.partition("```")[0])
    plan = study.load(str(tmp_path / "mine.toml")).study
    assert plan.turn_s == 0.5
    assert [(each.against, each.at_least) for each in plan.requirements] == [
        ("uvicorn", 3.5),
        ("ceiling", None),
    ]
