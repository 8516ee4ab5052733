"""Whole races of tiny servers: what is written down, what ends, what goes on."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab import race
from bolide.lab.folders import cache_folder
from bolide.lab.plan import contestant, environments, open_loop
from bolide.lab.plan.contestant import Setup
from bolide.lab.plan.open_loop import OpenLoop
from bolide.lab.plan.schedule import Slot
from bolide.lab.record import journal, machine, schema
from bolide.lab.record.schema import Machine, Study, Trial
from bolide.lab.report.summary import gather
from bolide.lab.tools import find
from bolide.lab.trial import trial, verify
from lab.tiny_race import (
    CPU,
    LIAR,
    Silent,
    among,
    liar,
    options,
    processes_with,
    renamed,
    study,
    trials_of,
    workload,
)

pytestmark = pytest.mark.slow


def test_a_whole_race_of_two(tmp_path: Path, silent: Silent) -> None:
    known = among("honest") | {"other": renamed(liar("honest"), "other")}
    is_whole = race.run(study(rounds=2), ["honest", "other"], options(tmp_path), silent, known)
    assert is_whole
    machine, recorded, *rest = journal.read(tmp_path / "out")
    assert isinstance(machine, Machine) and machine.cpus and machine.kernel
    assert isinstance(recorded, Study) and recorded.name == "tiny"
    entries = [each for each in rest if isinstance(each, schema.Contestant)]
    assert [(each.name, each.state) for each in entries] == [
        ("honest", "ready"),
        ("other", "ready"),
    ]
    found = trials_of(tmp_path)
    assert sorted((each.round, each.contestant) for each in found) == [
        (1, "honest"),
        (1, "other"),
        (2, "honest"),
        (2, "other"),
    ]
    for each in found:
        assert each.failure is None and each.is_valid, each
        assert each.ok and each.failed == 0 and each.errors == {}
        assert each.requests_per_s == pytest.approx(each.ok / (each.seconds or 0), rel=0.05)
        assert each.latency_us is not None and each.latency_us["p50"]
        assert each.server.cpu_s and each.server.processes == 1
        assert each.server.rss_bytes_max and each.server.rss_bytes_max > 1 << 20
        assert each.server.pss_bytes_max and each.server.pss_bytes_max > 1 << 19
        assert each.kernel.listen_overflows is not None
        assert each.command[-1].startswith("http://127.0.0.1:") or "load" in each.command
    assert processes_with(str(LIAR)) == []


def test_failures_are_recorded_and_the_race_goes_on(tmp_path: Path, silent: Silent) -> None:
    ways = ["wrong-body", "error-page", "closes-early", "dies", "refuses-to-start", "honest"]
    race.run(study(), ways, options(tmp_path), silent, among(*ways))
    found = {each.contestant: each for each in trials_of(tmp_path)}
    classes = {name: each.failure.class_ for name, each in found.items() if each.failure}
    assert classes == {
        "wrong-body": "wrong_body",
        "error-page": "wrong_status",
        "closes-early": "early_eof",
        "dies": "died",
        "refuses-to-start": "start",
    }
    for name in classes:
        each = found[name]
        assert (each.is_valid, each.verdict, each.ok, each.requests_per_s) == (
            False,
            "failed",
            None,
            None,
        )
    assert "ended with 7" in found["dies"].evidence[0]
    assert found["refuses-to-start"].evidence == ["ended with 1: {folder} is not mine"]
    assert found["honest"].is_valid
    assert processes_with(str(LIAR)) == []


def test_a_server_that_hangs_has_no_figure(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    patiences_s = iter((60.0, 0.5))  # before the load, and after it

    def proved(*arguments: Any, **named: Any) -> verify.Proof:
        monkeypatch.setattr(verify, "RESPONSE_S_MAX", next(patiences_s))
        return verify.verify(*arguments, **named)

    monkeypatch.setattr(trial, "verify", proved)
    race.run(study(), ["hangs"], options(tmp_path), silent, among("hangs"))
    [found] = trials_of(tmp_path)
    assert found.failure is not None and found.failure.class_ == "died"
    assert found.failure.message == "after the load: no response within 0.5 s"
    assert processes_with(str(LIAR)) == []


def test_a_daemon_is_ended_too(tmp_path: Path, silent: Silent) -> None:
    race.run(study(), ["escapes"], options(tmp_path), silent, among("escapes"))
    [found] = trials_of(tmp_path)
    assert found.failure is None and found.is_valid, found
    assert processes_with(str(LIAR)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_keeps_what_is_measured(
    number: signal.Signals, tmp_path: Path, silent: Silent
) -> None:
    silent.at_end = lambda found: os.kill(os.getpid(), number)
    is_whole = race.run(study(rounds=3), ["honest"], options(tmp_path), silent, among("honest"))
    assert not is_whole
    assert [each.round for each in trials_of(tmp_path)] == [1]
    assert processes_with(str(LIAR)) == []
    silent.at_end = lambda found: None
    resumed = options(tmp_path, resumes=True)
    assert race.run(study(rounds=3), ["honest"], resumed, silent, among("honest"))
    assert [each.round for each in trials_of(tmp_path)] == [1, 2, 3]


def test_a_half_written_line_is_measured_again(tmp_path: Path, silent: Silent) -> None:
    race.run(study(rounds=2), ["honest"], options(tmp_path), silent, among("honest"))
    path = tmp_path / "out" / journal.FILE_NAME
    path.write_bytes(path.read_bytes()[:-40])
    assert [each.round for each in trials_of(tmp_path)] == [1]
    resumed = options(tmp_path, resumes=True)
    race.run(study(rounds=2), ["honest"], resumed, silent, among("honest"))
    assert [each.round for each in trials_of(tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    ("noisy", "measured", "notes"),
    [
        ([3], [1, 2, 3, 3, 4, 5], []),
        ([3, 3], [1, 2, 3, 3, 4, 5], []),
        (
            [2, 2, 4],
            [1, 2, 2, 3, 4, 5],
            [
                "2 of 5 trials were noisy: stop other programs on these processors,"
                " or do not trust these figures"
            ],
        ),
    ],
)
def test_what_was_noisy_is_measured_once_more(
    noisy: list[int],
    measured: list[int],
    notes: list[str],
    tmp_path: Path,
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = list(noisy)

    def run(slot: Slot, conditions: trial.Conditions) -> Trial:
        verdict = "server-bound"
        if slot.round in left:
            left.remove(slot.round)
            verdict = "noisy"
        found = trial.failed(slot, conditions, schema.Failure("none", ""))
        return msgspec.structs.replace(found, is_valid=True, failure=None, verdict=verdict)

    monkeypatch.setattr(trial, "run", run)
    race.run(study(rounds=5), ["honest"], options(tmp_path), silent, among("honest"))
    assert [each.round for each in trials_of(tmp_path)] == measured
    assert [note for note in silent.notes if "noisy" in note] == notes
    assert silent.starts == [(5, 0)]
    resumed = options(tmp_path, resumes=True)
    race.run(study(rounds=5), ["honest"], resumed, silent, among("honest"))
    assert [each.round for each in trials_of(tmp_path)] == measured


@pytest.mark.parametrize(
    ("entry", "needs", "message"),
    [
        ({"is_persistent": False}, {}, "no contestant fits these workloads: it closes every"),
        ({}, {"programs": ("no-such-server",)}, "none of these contestants can run here"),
    ],
)
def test_a_race_of_none_leaves_nothing(
    entry: dict[str, bool],
    needs: dict[str, Any],
    message: str,
    tmp_path: Path,
    silent: Silent,
) -> None:
    lacking = msgspec.structs.replace(liar("honest", **entry), setup=Setup(**needs))
    with pytest.raises(ConfigError, match=message):
        race.run(study(), ["honest"], options(tmp_path), silent, {"honest": lacking})
    assert list(tmp_path.iterdir()) == []


def test_a_quick_race_of_nothing_is_reported(tmp_path: Path, silent: Silent) -> None:
    empty = msgspec.structs.replace(study(), workloads=())
    with pytest.raises(ConfigError, match="no workload of this study is in a quick race"):
        race.run(empty, ["honest"], options(tmp_path), silent, among("honest"))


def test_no_room_for_a_trial_is_one_line(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    with pytest.raises(ConfigError) as caught:
        race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    assert str(caught.value) == "the race cannot continue: No space left on device (somewhere)"
    assert processes_with(str(LIAR)) == []


def test_a_server_that_dies_of_a_request_to_close_is_measured_without(
    tmp_path: Path, silent: Silent
) -> None:
    known = {"dies-of-close": liar("dies-of-close", closes=False)}
    race.run(study(), ["dies-of-close"], options(tmp_path), silent, known)
    [found] = trials_of(tmp_path)
    assert found.failure is None and found.is_valid, found


def test_a_load_beyond_the_descriptors_is_refused(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (300, 300))
    many = study(workload(connections=101))
    race.run(many, ["honest"], options(tmp_path), silent, among("honest"))
    [found] = trials_of(tmp_path)
    assert found.failure is not None and found.failure.class_ == "descriptor_limit"
    assert found.failure.message == "301 descriptors are needed, 300 allowed (ulimit -n 301)"


@pytest.mark.parametrize(
    ("before", "connections", "after"),
    [
        ((1024, 1 << 30), 100, 65_536),
        ((1 << 30, 1 << 30), 100, 65_536),
        ((1024, -1), 100, 65_536),
        ((1024, 1 << 30), 100_000, 100_200),
        ((1024, 20_000), 100_000, 20_000),
        ((20_000, 20_000), 100, None),
    ],
)
def test_descriptors_are_enough_and_not_all(
    before: tuple[int, int],
    connections: int,
    after: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr("resource.getrlimit", lambda which: before)
    monkeypatch.setattr("resource.setrlimit", lambda which, both: reported.append((which, both)))
    race.limit_descriptors(connections)
    expected = [] if after is None else [(resource.RLIMIT_NOFILE, (after, before[1]))]
    assert reported == expected


@pytest.mark.parametrize(
    ("server", "load", "own"),
    [((0,), (1,), {2, 3}), ((0,), (1, 2, 3), {1, 2, 3}), ((0, 1), (0, 1, 2), {3})],
)
def test_the_race_itself_runs_beside_the_load_where_it_can(
    server: tuple[int, ...],
    load: tuple[int, ...],
    own: set[int],
    tmp_path: Path,
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at: list[set[int]] = [{0, 1, 2, 3}]
    seen: list[set[int]] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: at[-1])
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cpus: at.append(set(cpus)))

    def run(slot: Slot, conditions: trial.Conditions) -> Trial:
        seen.append(at[-1])
        return trial.failed(slot, conditions, schema.Failure("none", ""))

    monkeypatch.setattr(trial, "run", run)
    chosen = options(tmp_path, server_cpus=server, load_cpus=load)
    race.run(study(), ["honest"], chosen, silent, among("honest"))
    assert (seen, at[-1]) == ([own], {0, 1, 2, 3})


def test_a_set_up_that_failed_names_no_folder_of_this_machine(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "me")
    reason = f"set-up failed: `{tmp_path}/me/python -m venv {cache_folder()}/x` failed"
    lacking = environments.Status("cannot run here", reason)
    ready = environments.Status("ready")
    monkeypatch.setattr(
        environments, "examine", lambda who: ready if who.name == "honest" else lacking
    )
    monkeypatch.setattr(
        trial, "run", lambda slot, given: trial.failed(slot, given, schema.Failure("none", ""))
    )
    known = among("honest") | {"other": renamed(liar("honest"), "other")}
    race.run(study(), ["honest", "other"], options(tmp_path), silent, known)
    found = [each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Contestant)]
    assert [each.reason for each in found] == [
        "",
        "set-up failed: `~/python -m venv {cache}/x` failed",
    ]
    assert str(tmp_path) not in (tmp_path / "out" / journal.FILE_NAME).read_text()


def test_a_tool_that_does_not_end_is_ended(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = trial.Conditions(
        study="tiny", server_cpus=(CPU,), load_cpus=(CPU,), warm_up_s=0.0, slack_s=-1.3
    )
    slot = Slot(1, workload(duration_s=0.5), liar("honest"))
    found = trial.run(slot, conditions)
    assert found.failure is not None and found.failure.class_ == "hang", found
    assert processes_with(str(LIAR)) == []


def test_a_trial_by_ab_has_percentiles_in_microseconds() -> None:
    """Its standard output is a file, which ab opens anew: nothing may be written over that."""
    if find("ab").version() is None:
        pytest.skip("ab is not installed")
    conditions = trial.Conditions(study="tiny", server_cpus=(CPU,), load_cpus=(CPU,), warm_up_s=0.1)
    short = workload(
        tool="ab", http_version="1.0", is_persistent=False, requests_total=1000, timeout_s=10.0
    )
    found = trial.run(Slot(1, short, contestant.own()["http-server"]), conditions)
    assert found.failure is None, found
    assert found.histogram is not None and found.latency_us is not None
    assert sum(count for _, count in found.histogram) == found.ok == 1000
    assert any(upper_us % 1000 for upper_us, _ in found.histogram)
    mean, longest = found.latency_us["mean"], found.latency_us["max"]
    assert mean and longest and mean < longest == found.histogram[-1][0]


def test_an_open_loop_takes_its_rates_from_the_same_race(tmp_path: Path, silent: Silent) -> None:
    base = workload(name="short-bolide")
    table = OpenLoop(
        of=base.name, shares=(0.05,), rounds=1, duration_s=0.3, find="", find_duration_s=0.3
    )
    loads = [base, *open_loop.workloads(table, base)]
    known = among("honest") | {"dies": renamed(liar("wrong-body"), "dies")}
    race.run(study(*loads), ["honest", "dies"], options(tmp_path), silent, known)
    found = {(each.workload, each.contestant): each for each in trials_of(tmp_path)}
    most = found["short-bolide", "honest"].requests_per_s
    opened = found["open-own5-bolide", "honest"]
    assert most and opened.failure is None and opened.requests_per_s, opened
    assert opened.offered_per_s == float(f"{0.05 * most:.3g}")
    assert found["open-common5-bolide", "honest"].offered_per_s == opened.offered_per_s
    assert f"--rate {opened.offered_per_s:g}" in " ".join(opened.command)
    lost = found["open-own5-bolide", "dies"].failure
    assert lost == schema.Failure(
        "no_maximum", "short-bolide has no figure, so the rate to offer is not known"
    )


def test_an_open_loop_that_is_named_brings_its_closed_one(tmp_path: Path, silent: Silent) -> None:
    base = workload(name="short-bolide")
    table = OpenLoop(of=base.name, shares=(0.5,), rounds=1, duration_s=0.3, find="")
    plan = study(base, workload(name="other-bolide"), *open_loop.workloads(table, base))
    chosen = options(tmp_path, workloads=("open-own*",))
    race.run(plan, ["honest"], chosen, silent, among("honest"))
    names = [each.workload for each in trials_of(tmp_path)]
    assert names == ["short-bolide", "open-own50-bolide"]


def test_processors_of_one_core_are_warned_of(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = msgspec.structs.replace(
        machine.describe(), shared_cores=((CPU, CPU + 4), (CPU + 1, CPU + 5))
    )
    monkeypatch.setattr(machine, "describe", lambda: described)
    monkeypatch.setattr(
        trial, "run", lambda slot, given: trial.failed(slot, given, schema.Failure("none", ""))
    )
    race.run(
        study(),
        ["honest"],
        options(tmp_path / "one", load_cpus=(CPU + 1,)),
        silent,
        among("honest"),
    )
    assert not any("same cores" in each for each in silent.notes)
    beside = options(tmp_path / "two", load_cpus=(CPU + 4,))
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cpus: None)
    race.run(study(), ["honest"], beside, silent, among("honest"))
    assert (
        f"processors {CPU}, {CPU + 4} are threads of the same cores, on which server and load take"
        " time from each other: choose processors of different cores (--cpus)"
    ) in silent.notes


def test_notes_are_shown_when_the_race_starts(tmp_path: Path, silent: Silent) -> None:
    chosen = options(tmp_path, notes=("--quick skips much",))
    race.run(study(), ["honest"], chosen, silent, among("honest"))
    assert "--quick skips much" in silent.notes  # after a note about a development build


def test_a_search_finds_a_rate(tmp_path: Path, silent: Silent) -> None:
    base = workload(name="short-bolide")
    table = OpenLoop(of=base.name, shares=(0.5,), find="p99 < 4s", find_duration_s=0.2)
    [*_, search] = open_loop.workloads(table, base)
    race.run(study(base, search), ["honest"], options(tmp_path), silent, among("honest"))
    [_, found] = trials_of(tmp_path)
    assert found.failure is None and found.requests_per_s, found
    assert "--find p99 < 4s" in " ".join(found.command)
    assert any("p99 < 4s" in each for each in found.evidence)


@pytest.mark.parametrize(("processors", "seen"), [(None, 2), (1, 1), (2, 2), (4, 2)])
def test_a_workload_may_have_fewer_processors(
    processors: int | None, seen: int, tmp_path: Path, silent: Silent
) -> None:
    slot = Slot(1, workload(processors=processors), liar("honest"))
    conditions = trial.Conditions(
        study="tiny", server_cpus=(CPU, CPU + 1), load_cpus=(CPU,), warm_up_s=0.0
    )
    run = trial.Run(slot, conditions)
    assert len(run._server_cpus) == seen


def test_a_tool_that_checks_no_content_accepts_no_other_content(
    tmp_path: Path, silent: Silent
) -> None:
    if find("wrk").version() is None:
        pytest.skip("wrk is not installed")
    ways = ("changes-under-load", "honest")
    load = study(workload(tool="wrk", connections=8, duration_s=1.0))
    race.run(load, ways, options(tmp_path), silent, among(*ways))
    found = {each.contestant: each for each in trials_of(tmp_path)}
    assert found["honest"].is_valid and found["honest"].errors == {}
    wrong = found["changes-under-load"]
    assert (wrong.verdict, wrong.is_valid) == ("errors", False)
    assert (wrong.ok, wrong.requests_per_s) == (0, 0)
    assert wrong.errors["wrong_body"] == wrong.failed
    assert any("heads included, instead of the" in each for each in wrong.evidence)


def test_responses_to_a_tool_of_http_1_0_are_verified_as_such(
    tmp_path: Path, silent: Silent
) -> None:
    """Their heads are longer than those to HTTP/1.1, which is not another content."""
    if find("ab").version() is None:
        pytest.skip("ab is not installed")
    way = "keeps-alive-by-name"
    load = study(workload(tool="ab", connections=8, http_version="1.1"))
    race.run(load, [way], options(tmp_path), silent, among(way))
    [found] = trials_of(tmp_path)
    assert found.is_valid and found.ok and found.errors == {}, found.evidence


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor only")
def test_a_server_on_other_processors_has_no_figure(tmp_path: Path, silent: Silent) -> None:
    way = "takes-all-processors"
    race.run(study(), [way], options(tmp_path), silent, among(way))
    [found] = trials_of(tmp_path)
    assert not found.is_valid and found.failure is not None
    assert found.failure.class_ == "affinity"
    assert found.failure.message.startswith("it may run on processors that are not its own: ")


@pytest.mark.parametrize("content", ["OK", "@" * 100, "O" * 70_000])
def test_each_response_has_the_whole_content(content: str, tmp_path: Path, silent: Silent) -> None:
    """Also a long one, and one that is no argument, may not differ in a byte."""
    ways = ("lies-under-load", "honest")
    load = study(workload(content=content, connections=8))
    race.run(load, ways, options(tmp_path), silent, among(*ways))
    found = {each.contestant: each for each in trials_of(tmp_path)}
    assert found["honest"].is_valid and found["honest"].errors == {}
    wrong = found["lies-under-load"]
    assert (wrong.verdict, wrong.is_valid) == ("errors", False)
    assert wrong.errors["wrong_body"] == wrong.failed
    assert wrong.evidence[0].endswith(f" responses failed: wrong_body {wrong.failed:,}")


def test_a_trial_records_how_many_connections_were_served(tmp_path: Path, silent: Silent) -> None:
    race.run(study(), ["honest"], options(tmp_path), silent, among("honest"))
    [found] = trials_of(tmp_path)
    assert found.served is not None and found.ok
    assert (found.served.connections, found.served.starved) == (4, 0)
    assert 0 < found.served.min <= found.served.median <= found.served.max < found.ok
    assert found.in_flight == pytest.approx(4, rel=0.25)
    assert found.generator.processors and found.generator.processors < 1.3


def test_each_contestant_is_run_twice_to_find_the_floor(tmp_path: Path, silent: Silent) -> None:
    limited = study(workload(contestants=("honest",)))
    known = among("honest", "other")
    assert race.run(limited, ["honest"], options(tmp_path, is_doubled=True), silent, known)
    entries = [
        each for each in journal.read(tmp_path / "out") if isinstance(each, schema.Contestant)
    ]
    assert [(each.name, each.copy_of, each.role) for each in entries] == [
        ("honest", "", "server"),
        ("honest-again", "honest", "server"),
    ]
    assert sorted(each.contestant for each in trials_of(tmp_path)) == ["honest", "honest-again"]
    floor = gather(journal.read(tmp_path / "out")).floor
    assert floor is not None and floor < 10


def test_a_race_says_beforehand_how_long_it_takes(tmp_path: Path, silent: Silent) -> None:
    begun: list[str] = []
    silent.start = lambda slots, done: begun.extend(silent.notes)  # type: ignore[method-assign]
    done = study(workload(), rounds=2)
    assert race.run(done, ["honest"], options(tmp_path), silent, among("honest"))
    assert any(
        note.startswith("2 trials: 1 s of load and 2 s to start and verify servers, until about ")
        for note in begun
    )


@pytest.mark.parametrize("is_shared", [True, False])
def test_server_and_load_on_one_processor_are_a_warning(
    is_shared: bool, tmp_path: Path, silent: Silent
) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if not is_shared and len(allowed) < 2:
        pytest.skip("one processor")
    chosen = options(tmp_path, load_cpus=(CPU,) if is_shared else (allowed[1],))
    assert race.run(study(), ["honest"], chosen, silent, among("honest"))
    warning = (
        f"server and load share processor {CPU}: each takes time from the other, so no rate is"
        " the server's own (--cpus)"
    )
    assert (warning in silent.notes) == is_shared
