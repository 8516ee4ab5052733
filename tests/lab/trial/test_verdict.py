"""Who was the limit, and each sentence of evidence, at its threshold and just below."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.lab.record.schema import GeneratorUse, KernelDelta, ServerUse
from bolide.lab.trial.verdict import Observation, judge
from lab.tiny_race import workload

LOAD = ("connections", "pipeline_depth", "is_persistent", "duration_s", "rate_per_s")


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
        "latency_mean_us": 10_000.0,
        "server": ServerUse(cpu_share=more.pop("server_share", 0.5)),
        "server_cpus": 1,
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


def test_a_busy_generator_is_named_before_a_busy_server() -> None:
    assert judge(seen(generator_share=0.9, server_share=1.0))[0] == "generator-bound"


def test_what_is_unknown_has_no_sentence_and_is_no_limit() -> None:
    found = judge(
        seen(server_share=None, generator_share=None, others_share=None, latency_mean_us=None)
    )
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


STALL: dict[str, Any] = {"server_share": 0.05, "latency_mean_us": None, "ok": 200}
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


@pytest.mark.parametrize(
    ("latency_us", "sentences"),
    [
        (10_500.0, []),
        (9_500.0, []),
        (10_510.0, ["rate times latency is 105, not 100 connections"]),
        (9_400.0, ["rate times latency is 94, not 100 connections"]),
        (None, []),
    ],
)
def test_littles_law(latency_us: float | None, sentences: list[str]) -> None:
    assert judge(seen(latency_mean_us=latency_us)) == ("neither", [*BOTH, *sentences])


@pytest.mark.parametrize(
    "more", [{"pipeline_depth": 2}, {"is_persistent": False}, {"rate_per_s": 10_000.0}]
)
def test_littles_law_is_for_a_closed_loop_of_single_requests(more: dict[str, Any]) -> None:
    assert judge(seen(latency_mean_us=50_000.0, **more)) == ("neither", BOTH)


def test_littles_law_says_nothing_where_a_limit_is_known() -> None:
    assert judge(seen(latency_mean_us=50_000.0, generator_share=0.9))[1] == [
        SERVER,
        "the generator's busiest thread was busy 90%",
    ]
