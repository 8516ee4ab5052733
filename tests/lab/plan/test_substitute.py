"""Loads that `bolide load` takes over, and those that a quick race skips."""

from __future__ import annotations

from bolide.lab.plan import study, substitute


def test_a_missing_tool_is_replaced_unless_the_study_has_the_load() -> None:
    plan = study.load("wsgi").study
    found, wanted, notes = substitute.with_tool(plan, (), lambda tool: tool != "wrk")
    names = [each.name for each in found.workloads]
    assert {each.tool for each in found.workloads} == {"bolide"}
    assert len(set(names)) == len(names)
    assert "equal-c200-bolide" in names and "equal-c100-bolide" in names
    assert wanted == ()
    note, published = notes
    assert published.startswith("published figures of uwsgi-5, uwsgi-http, ")
    assert note.startswith("wrk is not installed: bolide load generates equal-c100, equal-c1000, ")
    assert note.endswith(" more loads")


def test_published_figures_do_not_move_to_another_tool() -> None:
    plan = study.load("php").study
    found, _, notes = substitute.with_tool(plan, (), lambda tool: tool not in ("ab", "webbench"))
    assert {each.tool for each in found.workloads} == {"bolide"}
    assert found.published == () != plan.published
    assert notes == [
        "webbench is not installed: bolide load generates short",
        "ab is not installed: bolide load generates kept, c50",
        "published figures of nginx-php-fpm, nginx-php-fpm-4, swoole, swoole-8 and 2 more are not"
        " shown: another tool measured them",
    ]


def test_a_name_that_was_asked_for_finds_its_replacement() -> None:
    plan = study.load("wsgi").study
    found, wanted, notes = substitute.with_tool(
        plan, ("equal-c200-wrk",), lambda tool: tool != "wrk"
    )
    assert wanted == ("equal-c200-wrk", "equal-c200-bolide")
    assert notes == ["wrk is not installed: bolide load generates equal-c200"]
    assert "equal-c200-bolide" in {each.name for each in found.workloads}


def test_nothing_changes_if_all_are_installed() -> None:
    plan = study.load("php").study
    assert substitute.with_tool(plan, ("short-*",), lambda tool: True) == (
        plan,
        ("short-*",),
        [],
    )


def test_a_quick_race_names_what_it_skips() -> None:
    plan = study.load("wsgi").study
    quick = study.shortened(plan, lambda tool: True)
    assert substitute.skipped(plan, quick) == [
        "equal-c200 to equal-c10000 (17)",
        "as-in-2016-c200 to as-in-2016-c10000 (18)",
        "closing-c500 to closing-c10000 (4)",
        "the open loop",
    ]
    plan = study.load("python-common").study
    quick = study.shortened(plan, lambda tool: True)
    assert substitute.skipped(plan, quick) == [
        "c4000",
        "cookies-c2000",
        "no-cookies-c2000",
        "the open loop",
    ]
