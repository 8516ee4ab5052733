"""The search for the highest rate, over servers that are formulas."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from bolide.errors import Error
from bolide.load import command, search, threshold
from bolide.load.run import Outcome
from load.samples import LATENCY, report

P99 = threshold.read("p99 < 10ms", "--find")


def server(capacity_per_s: float, **changes: Any) -> Callable[[float], Outcome]:
    """Make a server whose p99 is 10 ms at its capacity, in proportion to the rate."""

    def measure(rate: float) -> Outcome:
        p99_us = 10_000 * rate / capacity_per_s
        lag = {"p50": 1.0, "p99": 50.0, "max": 90.0}
        made = report(offered_per_s=rate, achieved_share=1.0, latency_us=LATENCY | {"p99": p99_us})
        return Outcome(made | {"schedule_lag_us": lag} | changes)

    return measure


def find(measure: Callable[[float], Outcome], start_per_s: float = 1000.0) -> search.Search:
    reported: list[search.Trial] = []
    found = search.find(P99, measure, reported.append, start_per_s)
    assert reported == found.trials
    return found


@pytest.mark.parametrize("capacity", [3, 700, 1_500, 23_456, 1_000_000])
def test_the_limit_is_found_within_the_gap(capacity: float) -> None:
    found = find(server(capacity))
    assert found.held and found.failed
    assert capacity / search.GAP**1.5 <= found.held.rate_per_s < capacity
    assert capacity <= found.failed.rate_per_s <= found.held.rate_per_s * search.GAP
    assert found.is_confirmed
    assert [trial.holds for trial in found.at(found.held.rate_per_s)] == [True] * 3
    assert search.limit(found) == "server"


def test_rates_double_then_close_in() -> None:
    rates = [trial.rate_per_s for trial in find(server(3_100)).trials]
    assert rates == [1000, 2000, 4000, 4000, 3000, 3500, 3500, 3250, 3250, 3120, 3120, 3000, 3000]


def shaky(results: dict[float, str], capacity: float) -> Callable[[float], Outcome]:
    """Make a server that holds or fails as `results` says, trial by trial: "+-" for some rates."""
    left = {rate: list(signs) for rate, signs in results.items()}

    def measure(rate: float) -> Outcome:
        signs = left.get(rate) or [""]
        factor = {"+": 10.0, "-": 0.1, "": 1.0}[signs.pop(0)]
        return server(max(capacity, rate if factor > 1 else 0) * factor)(rate)

    return measure


def test_one_bad_trial_is_not_believed() -> None:
    found = find(shaky({1000: "-", 2000: "-++", 3000: "+-+"}, 3_100))
    assert found.held is not None and found.held.rate_per_s == 3_000
    assert [trial.holds for trial in found.at(2000)] == [False, True, True]
    assert [trial.holds for trial in found.at(3000)] == [True, False, True]
    assert search.result_text(found)[1].startswith("it held in 2 of 3 trials at this rate; ")


def test_a_rate_that_fails_twice_is_not_found() -> None:
    found = find(shaky({3000: "+--"}, 3_100))
    assert found.held and found.failed
    assert 3_000 / search.GAP <= found.held.rate_per_s < found.failed.rate_per_s == 3_000
    assert len(found.at(found.held.rate_per_s)) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"failed": 21, "errors": {"reset": 21}}, "21 of 20,021 failed (21 reset)"),
        (
            {"unfinished": 300, "unfinished_us": [[11_000.0, 300]]},
            "p99 is infinite: 300 of 20,300 requests got no correct response",
        ),
        ({"achieved_share": 0.98}, "only 98.0% of the rate was achieved"),
        ({"achieved_share": 0.5}, "only 50.0% of the rate was achieved"),
    ],
)
def test_latency_alone_does_not_hold(changes: dict[str, Any], reason: str) -> None:
    found = find(server(1e9, **changes))
    assert found.held is None
    assert {trial.reason for trial in found.trials} == {reason}
    assert found.trials[-1].rate_per_s < 2
    assert len(found.at(1000)) == 2
    (line,) = search.result_text(found)
    assert line.startswith("no rate was found that meets p99 < 10ms; the lowest tried, ")
    assert reason in line


def test_a_rate_whose_backlog_grows_does_not_hold() -> None:
    def measure(rate: float) -> Outcome:
        # 3,000 responses per second. All others arrive after the end of the trial.
        over = max(0, round(rate - 3_000))
        return server(1e9, backlog_half=10 + over, backlog_end=10 + 2 * over)(rate)

    found = find(measure)
    assert found.held and 3_000 / search.GAP <= found.held.rate_per_s < 3_000 * search.GAP
    assert [trial.rate_per_s for trial in found.trials[2:4]] == [4_000, 4_000]
    assert found.trials[2].reason == "requests queued up, by 25.0% of the rate"


def test_one_stall_at_the_end_of_a_trial_does_not_decide() -> None:
    # The first trial, and one that confirms the result.
    numbers, stall = iter(range(1, 100)), {"backlog_half": 10, "backlog_end": 2_010}

    def measure(rate: float) -> Outcome:
        return server(3_100, **(stall if next(numbers) in (1, 14) else {}))(rate)

    found = find(measure)
    assert found.held and found.held.rate_per_s == 3_000 and found.is_confirmed
    assert [trial.holds for trial in found.at(1_000)] == [False, True, True]
    assert [trial.holds for trial in found.at(3_000)] == [True, False, True]


def test_a_server_without_responses_ends_the_search() -> None:
    found = find(server(1e9, ok=0))
    assert [trial.reason for trial in found.trials] == ["there was no correct response"]


@pytest.mark.parametrize(
    "changes",
    [{"generator_cpu": 0.97}, {"schedule_lag_us": {"p50": 1.0, "p99": 1_100.0, "max": 2e3}}],
)
def test_the_generators_limit_is_called_so(changes: dict[str, Any]) -> None:
    found = find(server(2_500, **changes))
    assert search.limit(found) == "generator"
    assert search.result_text(found)[-1].endswith(
        "this is the generator's limit: the server may do more; see --threads, --cpus"
    )


def test_trials_of_less_than_a_second_do_not_say_who_had_the_processors() -> None:
    for seconds, limit in ((2.0, "generator"), (0.5, "server")):
        found = find(server(2_500, generator_runnable=1.0, seconds=seconds))
        assert search.limit(found) == limit


@pytest.mark.parametrize(
    "changes",
    [{"generator_runnable": 1.0}, {"schedule_lag_us": {"p50": 1.0, "p99": 1_100.0, "max": 2e3}}],
)
def test_without_a_correct_response_the_generators_delay_is_no_limit(
    changes: dict[str, Any],
) -> None:
    assert search.limit(find(server(1e9, ok=0, **changes))) == "server"


def waiting(p50_us: Callable[[float], float]) -> Callable[[float], Outcome]:
    """Make a server that is as fast as `p50_us` says, and has no free connection for many."""

    def measure(rate: float) -> Outcome:
        sending = {"uncorrected_latency_us": LATENCY | {"p50": p50_us(rate)}}
        return server(2_500, waited_for_connection=round(rate / 10), **sending)(rate)

    return measure


def test_too_few_connections_are_not_the_servers_limit() -> None:
    found = find(waiting(lambda rate: 1_000.0))
    assert search.limit(found) == "connections"
    assert search.result_text(found)[-1].endswith(
        "this is the limit of the connections: all were busy, and the server responded as fast as "
        "at the lowest rate; give more of them with -c"
    )
    # A server without time left has all connections busy too, but responds more slowly.
    assert search.limit(find(waiting(lambda rate: rate))) == "server"
    few = server(2_500, waited_for_connection=20)
    assert search.limit(find(few)) == "server"


@pytest.mark.parametrize(("cause", "limit"), [("no_port", "generator"), ("no_answer", "server")])
def test_a_generator_without_ports_is_the_limit(cause: str, limit: str) -> None:
    def measure(rate: float) -> Outcome:
        lost = 500 if rate > 2_500 else 0
        failures = {"errors": {"connect": lost}, "connect_failures": {cause: lost}}
        return server(1e9, failed=lost, **failures)(rate)

    found = find(measure)
    assert search.limit(found) == limit
    assert search.result_text(found)[-1].endswith("see --source") == (limit == "generator")


def test_a_generator_that_never_sleeps_is_not_blamed_for_being_busy() -> None:
    busy = server(2_500, generator_cpu=1.0)
    assert search.limit(search.find(P99, busy, lambda trial: None, 1000, True)) == "server"


def test_what_it_says() -> None:
    found = find(server(3_100))
    assert found.held
    assert search.trial_text(found.trials[0], P99) == (
        "trial 1: 1,000 requests/s holds (p99 is 3.23 ms, in 2 of 2 seconds)"
    )
    assert search.trial_text(found.trials[2], P99) == (
        "trial 3: 4,000 requests/s fails: p99 is 12.9 ms (in 2 of 2 seconds)"
    )
    first, sure, why = search.result_text(found)
    assert first == f"{found.held.rate_per_s:,.0f} requests/s meet p99 < 10ms"
    assert sure.startswith("it held in 3 of 3 trials at this rate; the limit is at most ")
    assert "this is the server's limit: the generator had time left" in why


def test_no_rate_fails() -> None:
    found = find(server(1e15), 60e6)
    assert found.failed is None and search.limit(found) == "none"
    assert search.result_text(found)[-1] == "no rate failed, so the limit is not known"


def test_an_interrupt_ends_the_search() -> None:
    steady = server(1e6)
    found = find(lambda rate: Outcome(report(), True) if rate > 4_000 else steady(rate))
    assert found.interrupted and found.interrupted.rate_per_s > 4_000
    assert found.held is not None and found.held.rate_per_s == 4_000
    assert "before it was confirmed" in search.result_text(found)[1]


def test_an_interrupt_after_a_single_failure_leaves_its_reason() -> None:
    slow, first = server(500), iter((True,))
    found = find(lambda rate: slow(rate) if next(first, False) else Outcome(report(), True))
    assert found.held is None and len(found.trials) == 1
    (line,) = search.result_text(found)
    assert line.endswith("; the lowest tried, 1,000 requests/s: p99 is 20.0 ms")


def test_an_interrupt_between_two_trials_leaves_the_others() -> None:
    def measure(rate: float) -> Outcome:
        if rate > 1_500:
            raise KeyboardInterrupt
        return server(1e6)(rate)

    found = find(measure)
    assert found.was_interrupted and found.interrupted is None
    assert found.held is not None and found.held.rate_per_s == 1_000
    assert command._exit_code_of_search(found, []) == 130
    with pytest.raises(KeyboardInterrupt):
        find(measure, 2_000)


def test_a_server_without_any_rule_ends_the_search() -> None:
    dice = random.Random(7)  # noqa: S311 - no secret
    good, bad = server(1e9), server(1e-9)
    for _ in range(200):
        found = find(lambda rate: dice.choice((good, bad))(rate))
        assert len(found.trials) <= search.TRIALS_MAX
        assert all(len(found.at(trial.rate_per_s)) <= 3 for trial in found.trials)


def test_data_for_machines() -> None:
    found = find(server(3_100))
    data = search.as_data(found)
    assert found.held and found.failed
    assert data["rate_per_s"] == found.held.rate_per_s
    assert data["failed_rate_per_s"] == found.failed.rate_per_s
    assert (data["limit"], data["is_confirmed"]) == ("server", True)
    assert data["held_trials"] == data["trials_at_rate"] == 3
    assert data["trials"][2] == {
        "rate_per_s": 4000.0,
        "holds": False,
        "is_valid": True,
        "reason": "p99 is 12.9 ms",
        "value": pytest.approx(12_903, rel=1e-3),
    }


def spoilt(kind: str, spoils: Callable[[int, float], bool]) -> Callable[[float], Outcome]:
    """Make a server for 3,100/s whose trials with these numbers and rates are not valid."""
    good, count = server(3_100), 0

    def measure(rate: float) -> Outcome:
        nonlocal count
        count += 1
        found = good(rate).report
        if spoils(count, rate):
            # its latency is missed as well, which hides nothing
            latency_us = LATENCY | {"p99": 1e6}
            found |= {"invalid": ["agent b ..."], "invalid_kinds": [kind], "latency_us": latency_us}
        return Outcome(found)

    return measure


def test_a_trial_that_is_not_valid_is_repeated() -> None:
    found = find(spoilt("lost", lambda number, rate: number in (1, 2, 4)))
    plain = find(server(3_100))
    assert found.held and plain.held and found.held.rate_per_s == plain.held.rate_per_s
    valid = [(each.rate_per_s, each.holds) for each in found.trials if not each.invalid]
    assert valid == [(each.rate_per_s, each.holds) for each in plain.trials]
    assert [each.rate_per_s for each in found.trials[:5]] == [1000, 1000, 1000, 2000, 2000]
    assert found.is_confirmed and search.limit(found) == "server"
    assert search.trial_text(found.trials[0], P99).startswith(
        "trial 1: 1,000 requests/s is not valid: agent b ..."
    )


@pytest.mark.parametrize(
    ("kind", "limit", "text"),
    [
        ("lost", "invalid", "the server's limit is not known"),
        ("late", "invalid", "the server's limit is not known"),
        ("processor", "generator", "this is the generator's limit: the server may do more"),
    ],
)
def test_trials_that_are_not_valid_say_nothing_about_the_server(
    kind: str, limit: str, text: str
) -> None:
    found = find(spoilt(kind, lambda number, rate: rate > 1_500))
    assert [each.rate_per_s for each in found.trials] == [1000, 2000, 2000, 2000]
    assert found.held is not None and found.held.rate_per_s == 1000
    assert found.failed is None and not found.is_confirmed
    assert (search.limit(found), search.as_data(found)["limit"]) == (limit, limit)
    last = search.result_text(found)[-1]
    assert last.startswith("no result of 3 trials at 2,000 requests/s is valid (agent b ...); ")
    assert text in last and "server's limit:" not in last
    assert [each["is_valid"] for each in search.as_data(found)["trials"]] == [True] + [False] * 3


def test_agents_that_got_too_few_responses_are_evidence() -> None:
    found = find(server(1e9, achieved_share=0.98, invalid=["agent b ..."], invalid_kinds=["share"]))
    assert found.held is None and found.unmeasured is None
    assert {each.reason for each in found.trials} == {"agent b ..."}


def test_a_trial_that_cannot_be_run_leaves_the_others() -> None:
    good = server(1e6)

    def measure(rate: float) -> Outcome:
        if rate > 1_500:
            raise Error("agent b: it executes another run")
        return good(rate)

    found = find(measure)
    assert found.held is not None and found.held.rate_per_s == 1000
    data = search.as_data(found)
    assert (data["limit"], data["ended"]) == ("invalid", "agent b: it executes another run")
    assert search.result_text(found)[-1] == (
        "the next trial could not be run (agent b: it executes another run); "
        "the server's limit is not known"
    )
    with pytest.raises(Error, match="executes another run"):
        find(measure, 2_000)


def test_the_exit_code_of_a_search_that_is_not_valid() -> None:
    lost = find(spoilt("lost", lambda number, rate: rate > 1_500))
    assert command._exit_code_of_search(lost, []) == 4
    assert command._exit_code_of_search(lost, [threshold.read("p99 < 1us")]) == 1
    nothing = find(spoilt("lost", lambda number, rate: True))
    assert nothing.held is None and len(nothing.trials) == 3
    assert command._exit_code_of_search(nothing, []) == 4
    assert command._exit_code_of_search(find(server(3_100)), []) == 0
    assert command._exit_code_of_search(find(server(1e9, achieved_share=0.5)), []) == 1
