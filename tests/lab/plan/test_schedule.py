"""The order of the trials."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bolide.lab.plan import contestant, shipped, study
from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.schedule import reason_to_skip, sessions, slots
from bolide.lab.record.schema import Workload
from lab.tiny_race import liar, workload

NAMES = ["a", "b", "c", "d", "e"]


def field() -> list[Contestant]:
    return [liar(name) for name in NAMES]


def order(seed: int, rounds: int = 4) -> list[tuple[int, str, str]]:
    workloads = [workload(name="one"), workload(name="two")]
    return [
        (slot.round, slot.workload.name, slot.contestant.name)
        for slot in slots(field(), workloads, range(1, rounds + 1), seed)
    ]


def test_each_round_has_each_workload_with_each_contestant_once() -> None:
    found = order(1)
    firsts = [each[:2] for each in found[::5]]
    assert [number for number, _ in firsts] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert sorted(firsts) == [(n, name) for n in (1, 2, 3, 4) for name in ("one", "two")]
    assert all(len({each[:2] for each in found[at : at + 5]}) == 1 for at in range(0, 40, 5))
    assert set(Counter(found).values()) == {1}
    assert {name for *_, name in found} == set(NAMES)
    assert len(found) == 4 * 2 * 5


def test_contestants_are_shuffled_anew_each_time() -> None:
    found = order(1)
    orders = {tuple(name for *_, name in found[at : at + 5]) for at in range(0, len(found), 5)}
    assert len(orders) > 4


def test_workloads_are_shuffled_in_each_round() -> None:
    found = order(1, rounds=20)
    orders = {tuple(name for _, name, _ in found[at : at + 10 : 5]) for at in range(0, 200, 10)}
    assert orders == {("one", "two"), ("two", "one")}


def test_a_workload_may_have_fewer_rounds() -> None:
    loads = [workload(name="one", rounds=1), workload(name="two", rounds=9)]
    found = Counter(slot.workload.name for slot in slots([liar("a")], loads, range(1, 4), 1))
    assert found == {"one": 1, "two": 3}


def test_a_seed_gives_one_order() -> None:
    assert order(1) == order(1) != order(2)


def test_who_cannot_meet_a_workload_is_left_out_with_the_reason() -> None:
    def reason(load: Workload, **entry: object) -> str:
        return reason_to_skip(liar("a", **entry), load)

    assert reason(workload()) == ""
    assert reason(workload(), is_persistent=False) == "it closes every connection"
    assert reason(workload(is_persistent=False), is_persistent=False) == ""
    assert reason(workload(is_persistent=False), closes=False) == (
        "a request with Connection: close makes it exit"
    )
    assert reason(workload(), closes=False) == ""
    deep = workload(pipeline_depth=2)
    assert reason(deep, pipelines=False) == "it does not serve pipelined requests"
    assert reason(workload(connections=9), connections_max=8) == (
        "it serves 8 persistent connections at a time"
    )
    assert reason(workload(connections=9, is_persistent=False), connections_max=8) == ""
    assert reason(workload(contestants=("b",))) == "the workload is for other contestants"


def test_servers_of_a_group_are_loaded_in_turns() -> None:
    loads = [
        workload(name="one", group="both"),
        workload(name="two", group="both"),
        workload(name="alone"),
        workload(name="counted", duration_s=None, requests_total=4),
    ]
    found = sessions([liar("a"), liar("b")], loads, (1, 2), 3, 7)
    assert sorted(each.name for each in found) == sorted(["both", "alone", "counted"] * 2)
    pairs = [(name, who) for name in ("one", "two") for who in ("a", "b")]
    for number, session in enumerate(each for each in found if each.name == "both"):
        turns = [session.slots[at : at + 4] for at in range(0, 12, 4)]
        assert [{slot.round for slot in turn} for turn in turns] == [
            {number * 3 + at} for at in (1, 2, 3)
        ]
        for turn in turns:
            assert sorted((s.workload.name, s.contestant.name) for s in turn) == pairs
    # A load of a number of requests has one turn in a session.
    counted = [slot.round for each in found if each.name == "counted" for slot in each.slots]
    assert counted == [1, 1, 4, 4]
    assert sessions([liar("a"), liar("b")], loads, (1, 2), 3, 7) == found
    assert sessions([liar("a"), liar("b")], loads, (1, 2), 3, 8) != found


@pytest.mark.parametrize(
    ("entry", "load", "reason"),
    [
        ({}, {"tls": "full"}, "it does not serve TLS"),
        ({"uses_tls": True}, {}, "it serves TLS only"),
        ({"uses_tls": True}, {"tls": "resumed"}, ""),
        ({"uses_tls": True}, {"tls": "resumed", "http_version": "2"}, "it does not serve HTTP/2"),
        ({"serves_http2": True}, {"http_version": "2"}, ""),
    ],
)
def test_a_contestant_runs_only_what_it_serves(
    entry: dict[str, Any], load: dict[str, Any], reason: str
) -> None:
    assert reason_to_skip(liar("honest", **entry), workload(**load)) == reason


INJECTED = ['a"; include x; #', "$request", "a\\", "{env.HOME}", "a\0b", "a\rb"]


@pytest.mark.parametrize("content", INJECTED)
@pytest.mark.parametrize("name", ["nginx-tls", "haproxy-tls", "caddy-tls"])
def test_no_content_is_a_setting_of_a_server(name: str, content: str) -> None:
    server = contestant.own()[name]
    said = "its configuration file cannot have this content"
    assert shipped.unwritable(server, workload(content=content)) == said
    assert shipped.unwritable(server, workload(content="<h1>\nIt's 1; done #2.\n</h1>")) == ""
    assert shipped.unwritable(contestant.own()["bolide-asgi"], workload(content=content)) == ""


@pytest.mark.parametrize("target", ["/{include", "/;", '/"', "/$uri", "/#", "/\\"])
def test_no_target_is_a_setting_of_a_server(target: str) -> None:
    server = contestant.own()["nginx"]
    said = "its configuration file cannot have this target"
    assert reason_to_skip(server, workload(target=target)) == said
    assert reason_to_skip(server, workload(target="/a/b-c?d=1&e=%20")) == ""


def test_the_laboratorys_studies_can_be_written() -> None:
    for name in study.names():
        plan = study.load(name)
        for each in contestant.chosen(plan.contestants, contestant.own()):
            for load in plan.study.workloads:
                assert not reason_to_skip(each, load).startswith("its configuration file")
