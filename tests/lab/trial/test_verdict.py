"""Who was the limit, and each sentence of evidence, at its threshold and just below."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.lab.record import service
from bolide.lab.record.schema import GeneratorUse, KernelDelta, Served, ServerUse
from bolide.lab.trial.verdict import Observation, judge
from lab.tiny_race import workload

LOAD = ("connections", "pipeline_depth", "is_persistent", "duration_s", "requests_total")
LOAD += ("rate_per_s", "tool")


def seen(**more: Any) -> Observation:
    """Return what was seen of a calm trial: 100 connections, 1 s, half of one processor."""
    load = {name: more.pop(name) for name in LOAD if name in more}
    fields: dict[str, Any] = {
        "workload": workload(**{"connections": 100, "duration_s": 1.0, **load}),
        "ok": 10_000,
        "failed": 0,
        "errors": {},
        "seconds": 1.0,
        "requests_per_s": 10_000.0,
        "served": None,
        "in_flight": 100.0,
        "waiting_s": 0.01,
        "p99_us": 12_000.0,
        "server": ServerUse(cpu_share=more.pop("server_share", 0.5)),
        "server_cpus": 1,
        "load_cpus": 1,
        "has_late_clock": False,
        "local_ports": 28_232,
        "generator": GeneratorUse(cpu_share=more.pop("generator_share", 0.5)),
        "kernel": KernelDelta(**more.pop("kernel", {})),
        "others_share": 0.0,
    }
    return Observation(**(fields | more))


SERVER = "the server used 0.50 of 1 processor"
GENERATOR = "the generator's busiest thread was busy 50%"
BOTH = [SERVER, GENERATOR]


def test_a_calm_trial_has_no_limit() -> None:
    assert judge(seen()) == ("neither", BOTH)


@pytest.mark.parametrize(
    ("share", "cpus", "verdict", "sentence"),
    [
        (0.9, 1, "server-bound", "the server used 0.90 of 1 processor"),
        (0.8999, 1, "neither", "the server used 0.90 of 1 processor"),
        (1.8, 2, "server-bound", "the server used 1.80 of 2 processors"),
        (1.79, 2, "neither", "the server used 1.79 of 2 processors"),
    ],
)
def test_server_bound(share: float, cpus: int, verdict: str, sentence: str) -> None:
    found = judge(seen(server_share=share, server_cpus=cpus))
    assert found == (verdict, [sentence, GENERATOR])


@pytest.mark.parametrize(("share", "verdict"), [(0.9, "server-bound"), (0.89, "neither")])
def test_a_server_with_one_thread_has_one_processor(share: float, verdict: str) -> None:
    server = ServerUse(cpu_share=1.0, thread_share=share)
    assert judge(seen(server=server, server_cpus=2)) == (
        verdict,
        [
            "the server used 1.00 of 2 processors",
            f"the server's busiest thread was busy {share:.0%}",
            GENERATOR,
        ],
    )


def test_a_server_that_stopped_before_the_end_has_no_figure() -> None:
    verdict, evidence = judge(seen(waiting_s=0.5))
    assert verdict == "errors"
    assert evidence[0] == (
        "stalled: most connections had no response in the last 0.5 s of 1.0 s, and 99 % of those"
        " before took 12.0 ms at most"
    )
    # A queue is as long as its requests take, and the end of a short wait is none.
    for calm in ({"waiting_s": 0.5, "p99_us": 51_000.0}, {"waiting_s": 0.49, "p99_us": 100.0}):
        assert judge(seen(**calm))[0] == "neither"
    long = {"seconds": 10.0, "ok": 100_000, "workload": workload(connections=100, duration_s=10.0)}
    assert judge(seen(waiting_s=0.9, **long))[0] == "neither"
    assert judge(seen(waiting_s=1.0, **long))[0] == "errors"
    assert judge(seen(waiting_s=0.5, rate_per_s=10_000.0))[0] == "neither"


@pytest.mark.parametrize(("share", "cpus"), [(1.08, 1), (2.13, 2)])
def test_a_server_that_used_more_processors_than_its_own_has_no_figure(
    share: float, cpus: int
) -> None:
    verdict, evidence = judge(seen(server_share=share, server_cpus=cpus))
    of = "1 processor" if cpus == 1 else "2 processors"
    assert verdict == "errors"
    assert evidence[0] == f"the server used {share:.2f} of {of}: it ran on others too"
    assert judge(seen(server_share=1.04 * cpus, server_cpus=cpus))[0] == "server-bound"


def test_interrupts_that_are_no_process_are_time_of_the_side_that_they_interrupt() -> None:
    verdict, evidence = judge(seen(server_share=0.7, kernel={"server_irq_share": 0.21}))
    assert verdict == "server-bound"
    assert evidence[-1] == "interrupts used 0.21 of a processor of the server's"
    assert judge(seen(server_share=0.7, kernel={"server_irq_share": 0.19}))[0] == "neither"
    use = GeneratorUse(cpu_share=0.6, processors=0.6)
    verdict, evidence = judge(seen(generator=use, kernel={"load_irq_share": 0.26}))
    assert verdict == "generator-bound"
    assert evidence[-1] == "interrupts used 0.26 of a processor of the load's"
    assert judge(seen(generator=use, kernel={"load_irq_share": 0.24}))[0] == "neither"


@pytest.mark.parametrize(
    ("share", "verdict", "sentence"),
    [
        (0.85, "generator-bound", "the generator's busiest thread was busy 85%"),
        (0.8499, "neither", "the generator's busiest thread was busy 85%"),
        (1.0, "generator-bound", "the generator's busiest thread was busy 100%"),
    ],
)
def test_generator_bound(share: float, verdict: str, sentence: str) -> None:
    assert judge(seen(generator_share=share)) == (verdict, [SERVER, sentence])


@pytest.mark.parametrize(
    ("processors", "cpus", "verdict", "sentence"),
    [
        (0.94, 1, "generator-bound", "the generator used 0.94 of 1 processor"),
        (0.85, 1, "generator-bound", "the generator used 0.85 of 1 processor"),
        (0.8499, 1, "neither", "the generator used 0.85 of 1 processor"),
        (1.7, 2, "generator-bound", "the generator used 1.70 of 2 processors"),
        (1.69, 2, "neither", "the generator used 1.69 of 2 processors"),
    ],
)
def test_many_threads_that_are_busy_together_are_the_limit(
    processors: float, cpus: int, verdict: str, sentence: str
) -> None:
    """A hundred threads on one processor: each of them was busy 1 % of the time."""
    generator = GeneratorUse(cpu_share=0.01, processors=processors)
    found = judge(seen(generator=generator, load_cpus=cpus))
    busiest = "the generator's busiest thread was busy 1%"
    assert found == (verdict, [SERVER, busiest, sentence])


def test_a_busy_generator_is_named_before_a_busy_server() -> None:
    assert judge(seen(generator_share=0.9, server_share=1.0))[0] == "generator-bound"


def test_what_is_unknown_has_no_sentence_and_is_no_limit() -> None:
    found = judge(seen(server_share=None, generator_share=None, others_share=None, in_flight=None))
    assert found == ("neither", [])


@pytest.mark.parametrize(
    ("ok", "failed", "verdict", "evidence"),
    [
        (99_990, 10, "neither", BOTH),
        (99_989, 11, "errors", ["11 of 100,000 responses failed: wrong_body 11", *BOTH]),
        (0, 3000, "errors", ["3,000 of 3,000 responses failed: wrong_body 3,000", *BOTH]),
        (0, 0, "errors", ["no request got a response", *BOTH]),
    ],
)
def test_errors(ok: int, failed: int, verdict: str, evidence: list[str]) -> None:
    errors = {"wrong_body": failed, "reset": 0}
    found = judge(seen(ok=ok, failed=failed, errors=errors, seconds=0.9))
    assert found == (verdict, evidence)


def test_every_class_of_errors_is_named() -> None:
    found = judge(seen(failed=1500, errors={"timeout": 1000, "reset": 500, "connect": 0}))
    assert found[1][0] == "1,500 of 11,500 responses failed: timeout 1,000, reset 500"


@pytest.mark.parametrize(
    ("more", "verdict", "sentences"),
    [
        ({"kernel": {"steal_share": 0.01}}, "neither", []),
        (
            {"kernel": {"steal_share": 0.0101}},
            "noisy",
            ["another guest of the host took 1.0% of the time"],
        ),
        ({"others_share": 0.1}, "neither", []),
        (
            {"others_share": 0.101},
            "noisy",
            ["other processes took 10% of the race's processors"],
        ),
        ({"kernel": {"waited_share": {"memory": 0.05, "cpu": 0.9}}}, "neither", []),
        (
            {"kernel": {"waited_share": {"memory": 0.06}}},
            "noisy",
            ["tasks waited for memory in 6% of the time"],
        ),
        ({"kernel": {"listen_overflows": 0, "syncookies": 0}}, "neither", []),
        (
            {"kernel": {"listen_overflows": 1200, "syncookies": 3}},
            "neither",
            [
                "the server's accept queue overflowed 1,200 times",
                "the kernel sent 3 SYN cookies",
            ],
        ),
        ({"kernel": {"time_wait": 14_116}}, "neither", []),
        (
            {"kernel": {"time_wait": 14_117}},
            "neither",
            ["connections in TIME_WAIT occupied 14,117 of 28,232 ports"],
        ),
        ({"kernel": {"time_wait": 14_117}, "local_ports": None}, "neither", []),
    ],
)
def test_noise_and_queues(more: dict[str, Any], verdict: str, sentences: list[str]) -> None:
    assert judge(seen(**more)) == (verdict, [*BOTH, *sentences])


def test_noise_comes_before_limits_and_errors_before_noise() -> None:
    noise = {"kernel": {"steal_share": 0.5}}
    assert judge(seen(generator_share=1.0, server_share=1.0, **noise))[0] == "noisy"
    assert judge(seen(failed=500, errors={"reset": 500}, **noise))[0] == "errors"


STALL: dict[str, Any] = {"server_share": 0.05, "in_flight": None, "ok": 200}
STALLED = [
    "stalled: 2.0 responses on each connection, and an idle server",
    "the server used 0.05 of 1 processor",
    GENERATOR,
]


@pytest.mark.parametrize(("worked_s", "cpus"), [(3.16, 1), (6.31, 2)])
def test_a_rate_that_cannot_be(worked_s: float, cpus: int) -> None:
    def judged(cpu_s: float, *, has_late_clock: bool) -> tuple[str, list[str]]:
        server = ServerUse(cpu_s=cpu_s, cpu_share=float(cpus))
        more = {"server": server, "server_cpus": cpus, "has_late_clock": has_late_clock}
        return judge(seen(seconds=3.0, **more))

    verdict, evidence = judged(worked_s, has_late_clock=True)
    assert verdict == "errors"
    assert evidence[0] == (
        f"the server worked {worked_s:.1f} s on {cpus} processor{'s' * (cpus > 1)},"
        " bolide reports 3.0 s: the rate is too high"
    )
    assert judged(worked_s - 0.02, has_late_clock=True)[0] == "server-bound"
    assert judged(worked_s, has_late_clock=False)[0] == "server-bound"


def test_a_stall() -> None:
    assert judge(seen(**STALL)) == ("errors", STALLED)


def test_a_stall_whose_few_responses_took_less_than_a_tick() -> None:
    """One response on each connection, then silence: wrk reports no errors."""
    verdict, evidence = judge(seen(**{**STALL, "server_share": 0.0, "ok": 100, "tool": "wrk"}))
    assert (verdict, evidence[0]) == (
        "errors",
        "stalled: 1.0 responses on each connection, and an idle server",
    )


def test_a_stall_counts_failures_and_comes_before_them() -> None:
    verdict, evidence = judge(seen(**{**STALL, "ok": 40, "failed": 60, "errors": {"timeout": 60}}))
    first = "stalled: 1.0 responses on each connection, and an idle server"
    assert (verdict, evidence) == ("errors", [first, *STALLED[1:]])


def test_a_stall_of_pipelined_requests_is_one_of_batches() -> None:
    deep = {**STALL, "pipeline_depth": 16}
    assert judge(seen(**{**deep, "ok": 3200}))[0] == "errors"
    assert judge(seen(**{**deep, "ok": 3201}))[0] == "neither"


@pytest.mark.parametrize(
    "more",
    [
        {"ok": 201},
        {"server_share": 0.1},
        {"server_share": None},
        {"seconds": 0.99},
        {"duration_s": None},
        {"is_persistent": False},
        {"rate_per_s": 200.0},
    ],
)
def test_no_stall(more: dict[str, Any]) -> None:
    verdict, evidence = judge(seen(**(STALL | more)))
    assert verdict == "neither"
    assert not any("stalled" in each for each in evidence)


def test_an_idle_server_is_idle_on_all_its_processors() -> None:
    assert judge(seen(**(STALL | {"server_share": 0.19, "server_cpus": 2})))[0] == "errors"
    assert judge(seen(**(STALL | {"server_share": 0.2, "server_cpus": 2})))[0] == "neither"


CONTRADICTION = (
    "rate times mean latency is {:.0f}, not 100 connections: do not rely on wrk's latency"
)


@pytest.mark.parametrize(
    ("flying", "sentences"),
    [
        (119.9, []),
        (80.1, []),
        (151.0, [CONTRADICTION.format(151)]),
        (79.0, [CONTRADICTION.format(79)]),
        (None, []),
    ],
)
@pytest.mark.parametrize("limit", ["neither", "generator-bound", "server-bound"])
def test_a_latency_that_contradicts_the_rate_is_named_whatever_the_limit(
    flying: float | None, sentences: list[str], limit: str
) -> None:
    shares = {"generator_share": 0.3, "server_share": 0.3}
    shares |= {"neither": {}, "generator-bound": {"generator_share": 0.9}}.get(
        limit, {"server_share": 0.95}
    )
    verdict, evidence = judge(seen(in_flight=flying, tool="wrk", **shares))
    assert (verdict, evidence[2:]) == (limit, sentences)


@pytest.mark.parametrize(
    ("ok", "flying", "is_named"),
    [
        (200, 60.1, False),  # 75 of 100 are in flight that the window does not interrupt
        (200, 59.9, True),
        (900, 151.0, False),  # of a warm-up, for example
        (1000, 151.0, True),
    ],
)
def test_few_responses_contradict_the_rate_less(ok: int, flying: float, is_named: bool) -> None:
    evidence = judge(seen(in_flight=flying, tool="wrk", ok=ok))[1]
    assert (CONTRADICTION.format(flying) in evidence) is is_named


FEW = "rate times mean latency is 4.9: about 5 of 100 connections were served"


def test_few_connections_in_flight_are_no_figure() -> None:
    verdict, evidence = judge(seen(in_flight=4.9, tool="wrk", server_share=1.0))
    assert (verdict, evidence[0]) == ("errors", FEW)
    assert judge(seen(in_flight=50.0, tool="wrk", server_share=1.0))[0] == "server-bound"
    assert judge(seen(in_flight=49.0, tool="wrk", server_share=1.0))[0] == "errors"


SLOW: dict[str, Any] = {
    "tool": "wrk",
    "connections": 10_000,
    "duration_s": 3.0,
    "seconds": 3.0,
    "server_share": 1.0,
}


@pytest.mark.parametrize(
    ("ok", "flying", "verdict"),
    [
        (71_535, 947.0, "errors"),  # aiohttp on uvloop, of which 9,300 would be all
        (28_000, 3_039.0, "errors"),  # waitress
        (18_000, 6_280.0, "server-bound"),  # cheroot, which served all: 7,222
        (16_000, 3_438.0, "server-bound"),  # half of what the window can show: 6,875
        (16_000, 3_437.0, "errors"),
        (5_000, 1_250.0, "server-bound"),  # half of the connections were served, in turn: 2,500
        (5_000, 1_249.0, "errors"),
    ],
)
def test_few_in_flight_are_no_figure_of_a_slow_server(ok: int, flying: float, verdict: str) -> None:
    """Connections that had few responses each: the window's end interrupts many of them."""
    assert judge(seen(**SLOW, ok=ok, in_flight=flying))[0] == verdict


def test_a_number_of_requests_is_not_interrupted() -> None:
    load = {**SLOW, "duration_s": None, "requests_total": 18_000, "ok": 18_000}
    assert judge(seen(**load, in_flight=5_000.0))[0] == "server-bound"
    assert judge(seen(**load, in_flight=4_999.0))[0] == "errors"


def test_counts_of_few_responses_are_checked_by_the_law_too() -> None:
    """All have had a response at the end, most of them only then."""
    counted = served(9_700, 300, min=0, median=1, fairness=0.2)
    few = seen(**SLOW, ok=60_000, in_flight=947.0, served=counted)
    assert judge(few)[0] == "errors"
    assert judge(few)[1][0] == (
        "rate times mean latency is 947.0: about 947 of 10,000 connections were served"
    )
    assert judge(seen(**SLOW, ok=60_000, in_flight=9_000.0, served=counted))[0] == "server-bound"


@pytest.mark.parametrize(("starved", "verdict"), [(997, "server-bound"), (998, "errors")])
def test_few_responses_leave_some_connections_without_one(starved: int, verdict: str) -> None:
    """At 3 each, 5 % of them if the server takes requests in no order, and 5 % more."""
    counted = served(10_000 - starved, starved, min=0)
    found = judge(seen(**SLOW, ok=30_000, in_flight=None, served=counted))
    assert found[0] == verdict


@pytest.mark.parametrize(
    ("processors", "flying", "verdict"),
    [
        (0.39, 49.0, "errors"),
        (0.4, 49.0, "neither"),
        (0.4, 24.0, "errors"),
        (1.0, 40.0, "generator-bound"),
    ],
)
def test_a_busy_tool_has_fewer_requests_in_flight(
    processors: float, flying: float, verdict: str
) -> None:
    """Its connections wait for it, which its latency leaves out."""
    generator = GeneratorUse(processors=processors)
    assert judge(seen(in_flight=flying, tool="wrk", generator=generator))[0] == verdict


def served(connections: int, starved: int, **more: Any) -> Served:
    """Return what `bolide load` counted, evenly unless stated otherwise."""
    fields: dict[str, Any] = {"min": 99, "median": 100, "max": 101, "fairness": 1.0}
    return Served(connections=connections, starved=starved, **(fields | more))


def test_connections_that_were_counted_need_no_law() -> None:
    assert judge(seen(served=served(100, 0))) == ("neither", BOTH)
    even = seen(served=served(100, 0), in_flight=4.9)
    assert judge(even) == (
        "neither",
        [
            *BOTH,
            "rate times mean latency is 5, not 100 connections: do not rely on bolide's latency",
        ],
    )
    few = judge(seen(served=served(5, 95, min=0, median=0, fairness=0.05), server_share=1.0))
    assert few[0] == "errors"
    assert few[1][0] == "95 of 100 connections were not served: the rate is that of 5"
    verdict, evidence = judge(seen(served=served(95, 5, min=0, fairness=0.95)))
    assert (verdict, evidence) == (
        "neither",
        [*BOTH, "5 of 100 connections got no correct response"],
    )
    assert judge(seen(served=served(94, 6, min=0)))[0] == "errors"


def test_connections_that_were_never_opened_are_starved() -> None:
    """The generator starts without those that are not open in time, and does not count them."""
    verdict, evidence = judge(seen(served=served(60, 0)))
    assert verdict == "errors"
    assert evidence[0] == "40 of 100 connections were not served: the rate is that of 60"
    assert judge(seen(served=served(58, 2)))[1][0].startswith("42 of 100 connections were not")
    assert judge(seen(served=served(97, 0), ok=5000)) == (
        "neither",
        [*BOTH, "3 of 100 connections got no correct response"],
    )
    # Of these, not every connection has to be used.
    for more in ({"rate_per_s": 100.0}, {"is_persistent": False}, {"requests_total": 60}):
        assert judge(seen(served=served(60, 0), **more)) == ("neither", BOTH), more


def test_connections_that_were_served_unevenly() -> None:
    uneven = served(100, 0, min=3, max=40_000, fairness=0.5)
    sentence = "connections were served unevenly: 3 to 40,000 responses each, 100 at the median"
    assert judge(seen(served=uneven)) == ("neither", [*BOTH, sentence])


def test_one_response_and_then_none_is_no_service() -> None:
    """Five of a hundred connections have all responses but one each of the others."""
    few = served(100, 0, min=1, median=1, max=4000, fairness=0.05)
    verdict, evidence = judge(seen(served=few))
    assert verdict == "errors"
    assert evidence[0] == (
        "the rate is that of about 5 of 100 connections: connections were served unevenly:"
        " 1 to 4,000 responses each, 1 at the median"
    )
    assert judge(seen(served=few, is_persistent=False))[0] == "neither"
    assert judge(seen(served=few, rate_per_s=10_000.0))[0] == "neither"
    assert judge(seen(served=few, ok=999))[0] == "neither"


def test_without_a_correct_response_the_failures_are_the_reason() -> None:
    none = served(0, 100, min=0, median=0, max=0, fairness=0.0)
    wrong = {"ok": 0, "failed": 10_000, "errors": {"wrong_body": 10_000}}
    verdict, evidence = judge(seen(served=none, **wrong))
    assert verdict == "errors"
    assert evidence[0] == "10,000 of 10,000 responses failed: wrong_body 10,000"


@pytest.mark.parametrize(
    ("more", "flying"),
    [
        ({}, 4.9),
        ({"rate_per_s": 10_000.0}, None),
        ({"is_persistent": False}, None),
        ({"is_persistent": False, "tool": "ab"}, 4.9),
        ({"pipeline_depth": 2, "tool": "bolide"}, None),
        ({"pipeline_depth": 2}, 2.45),
    ],
)
def test_the_law_is_applied_where_it_says_something(
    more: dict[str, Any], flying: float | None
) -> None:
    load = workload(**{"tool": "wrk", "connections": 100, **more})
    found = service.in_flight(load, 51_032.0, 96.02)
    assert found == (None if flying is None else pytest.approx(flying, rel=0.01))


def test_an_agent_without_time_makes_its_load_the_limit() -> None:
    assert judge(seen(is_short_of_time=True)) == ("generator-bound", BOTH)
    assert judge(seen(is_short_of_time=True, server_share=0.95))[0] == "generator-bound"


def test_processors_of_other_machines_are_not_a_limit_together() -> None:
    used = GeneratorUse(cpu_share=0.5, processors=3.0)
    assert judge(seen(generator=used, load_cpus=4))[0] == "neither"
    assert judge(seen(generator=used, load_cpus=3))[0] == "generator-bound"
    verdict, evidence = judge(seen(generator=used, load_cpus=None))
    assert verdict == "neither"
    assert evidence == [*BOTH, "the agents used 3.00 processors"]
