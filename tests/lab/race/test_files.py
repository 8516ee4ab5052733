"""The contestants' and the studies' files: all valid, and what is wrong in one is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.lab import contestant, study
from bolide.lab.tools import TOOLS

SEEDS = ["aiohttp-uvloop", "php", "pipelining", "python-common", "wsgi"]


def test_every_contestant_is_valid() -> None:
    found = contestant.own()
    assert len(found) >= 40
    assert {"bolide-native", "bolide-asgi", "bolide-wsgi", "ceiling"} <= found.keys()
    assert [name for name, each in found.items() if each.entry.role == "ceiling"] == ["ceiling"]


def test_requirements_are_pinned() -> None:
    for each in contestant.own().values():
        for requirement in each.setup.requirements:
            assert "==" in requirement, each.name
        assert not each.setup.requirements or each.setup.distribution or each.entry.requirements


def test_applications_and_sources_are_there() -> None:
    for each in contestant.own().values():
        if module := each.entry.app.partition(":")[0]:
            assert (contestant.APPS / f"{module}.py").is_file(), each.name
        for word in each.entry.command:
            if word.startswith("{apps}/"):
                assert (contestant.APPS / word.removeprefix("{apps}/")).is_file(), each.name
        for folder in (each.setup.go, each.setup.cargo):
            assert not folder or (contestant.APPS / folder).is_dir(), each.name


def test_there_is_a_study_of_every_seed() -> None:
    assert study.names() == SEEDS


@pytest.mark.parametrize("name", SEEDS)
def test_every_study_is_valid(name: str) -> None:
    plan = study.load(name)
    known = contestant.own()
    assert contestant.chosen(plan.contestants, known)
    names = {each.name for each in plan.study.workloads}
    assert len(names) == len(plan.study.workloads)
    for each in plan.study.workloads:
        assert each.tool in TOOLS
        assert set(each.contestants) <= set(plan.contestants)
        assert (each.duration_s is None) != (each.requests_total is None)
    assert plan.study.published
    for figure in plan.study.published:
        assert figure.contestant in plan.contestants
        assert figure.workload in names
    quick = study.shortened(plan.study, lambda tool: tool == "bolide")
    assert quick.workloads and {each.tool for each in quick.workloads} == {"bolide"}
    assert quick.rounds == 1 and all((each.duration_s or 1) == 1 for each in quick.workloads)


def test_a_quick_race_has_the_documents_tool_where_it_is_installed() -> None:
    quick = study.shortened(study.load("pipelining").study, lambda tool: True)
    assert [each.name for each in quick.workloads] == ["pipelined-wrk"]


@pytest.mark.parametrize("cores", [1, 3])
def test_a_workload_has_as_many_threads_as_the_load_has_processors(cores: int) -> None:
    workloads = study.load("aiohttp-uvloop", cores).study.workloads
    threads = {each.name: each.threads for each in workloads}
    assert threads == {
        "t100-wrk": 100,
        "t100-bolide": 100,
        "cores-wrk": cores,
        "cores-bolide": cores,
    }


def test_levels_make_a_workload_each() -> None:
    names = [each.name for each in study.load("wsgi").study.workloads]
    assert len([name for name in names if name.startswith("equal-") and "wrk" in name]) == 19
    assert "equal-c10000-wrk" in names


CONTESTANT = """
title = "T"
language = "Python"
[[contestant]]
name = "x"
title = "X"
interface = "own"
command = ["{python}"]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "x.toml: Invalid value"),
        (CONTESTANT.replace('title = "X"', ""), "missing required field `title`"),
        (CONTESTANT + 'nonsense = "1"', "unknown field `nonsense`"),
        (CONTESTANT.replace("{python}", "{pyhton}"), "no placeholder {pyhton}"),
        (CONTESTANT + CONTESTANT.partition("[[")[2].join(["[[", ""]), "is a 'x' already"),
    ],
)
def test_a_wrong_contestant_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        contestant.read_all([tmp_path])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title", "x.toml: "),
        ('title = "T"\ndocument = ""\ncontestants = []', "missing required field `workload`"),
    ],
)
def test_a_wrong_study_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        study.load(str(path))
    assert message in str(caught.value)


def test_unknown_names_are_told() -> None:
    with pytest.raises(ConfigError, match="no study 'nonsense'; there are aiohttp-uvloop"):
        study.load("nonsense")
    with pytest.raises(ConfigError, match="no contestant 'bolide-nativ'; there are"):
        contestant.chosen(["bolide-nativ"], contestant.own())
    assert [each.name for each in contestant.chosen(["bolide-w*"], contestant.own())] == [
        "bolide-wsgi"
    ]


def test_the_documents_example_is_a_study(tmp_path: Path) -> None:
    document = Path(__file__).parents[3] / "docs" / "race.md"
    example = document.read_text().partition("```toml\n")[2].partition("```")[0]
    for line in ("requests_total", "rate_per_s", "contestants", "does_not_hold"):
        example = example.replace(f"# {line}", line)
    (tmp_path / "mine.toml").write_text(example)
    plan = study.load(str(tmp_path / "mine.toml"))
    assert [each.name for each in plan.study.workloads] == [
        "kept-c100-wrk",
        "kept-c100-bolide",
        "kept-c1000-wrk",
        "kept-c1000-bolide",
    ]
    assert plan.study.workloads[0].contestants == ("uvicorn",)
    assert plan.study.published[0].does_not_hold == "why it is no result"
