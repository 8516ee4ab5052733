"""The agents of a race in its report: their machines, what they did, and what was left out."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from bolide.lab.record import resume
from bolide.lab.record.schema import Agent, AgentUse, Fleet, FleetUse, Record, Study, Trial
from bolide.lab.report import conditions, fleet, markdown, page
from bolide.lab.report.compare import changes
from bolide.lab.report.summary import Race, gather
from bolide.lab.report.terminal import of_fleet
from lab import sample_race

AGENTS = (
    Agent(
        name="a",
        host="load1",
        cpu_model="Some processor",
        cpus=4,
        memory_bytes=8 << 30,
        kernel="Linux 6.1",
        python="3.12.1",
    ),
    Agent(name="b", host="load2"),
)
REMARK = "wrk runs on one machine: bolide load generates pipelined"


def use(agent: Agent, **more: object) -> AgentUse:
    return AgentUse(machine=agent, **more)  # type: ignore[arg-type]


def uses(round_: int) -> FleetUse:
    """Return what both did; in the second round, b was lost."""
    first = use(AGENTS[0], cpu_share=0.1 * round_, waited_share=0.01, start_late_us=100.0 * round_)
    if round_ == 2:
        return FleetUse(agents=(first, use(AGENTS[1], lost="it did not respond for 5 s")))
    second = use(AGENTS[1], cpu_share=0.5, start_late_us=20.0)
    return FleetUse(
        agents=(first, second), start_skew_us=80.0 * round_, start_skew_uncertainty_us=9.0
    )


def records(where: str = "tcp://10.0.0.1:8786") -> list[Record]:
    """Return the sample's first study, as if a fleet had generated its load in three rounds."""
    found: list[Record] = []
    described = Fleet(where=where, server_address="10.0.0.5", agents=AGENTS)
    for each in sample_race.records(rounds=3):
        if isinstance(each, Study):
            each = msgspec.structs.replace(each, remarks=(REMARK,))
        elif isinstance(each, Trial):
            each = msgspec.structs.replace(each, fleet=uses(each.round + 1))
        elif each.__class__.__name__ == "Machine":
            each = msgspec.structs.replace(each, fleet=described)  # type: ignore[call-arg]
        found.append(each)
    return found


@pytest.fixture(scope="module")
def race() -> Race:
    return gather(records())


def test_each_agent_has_a_row(race: Race) -> None:
    table = fleet.table(race)
    assert table is not None
    rows = [[cell.text for cell in line.cells] for line in table.lines]
    number = sum(each.fleet is not None for each in race.trials)
    lost = sum(each.round == 1 for each in race.trials)
    described = ["4 × Some processor", "8 GiB", "Linux 6.1", "3.12.1"]
    first = ["a", "load1", *described, f"{number:,}", "0", "30 %", "1 %", "300 µs"]
    unknown = ["unknown", "–", "unknown", "unknown"]
    second = ["b", "load2", *unknown, f"{number:,}", f"{lost:,}", "50 %", "–", "20 µs"]
    assert rows == [first, second]


def test_the_skew_is_that_of_trials_with_all_agents(race: Race) -> None:
    assert fleet.sentence(race) == (
        "The load came from 2 agents (tcp://10.0.0.1:8786). Their starts were 160 µs apart at the"
        " median of the trials and 240 µs at most, as far as the clocks are known (to 9 µs)."
    )


def test_reports_have_the_agents_and_what_was_left_out(race: Race) -> None:
    text = markdown.render(race, {})
    assert "\n## Agents\n" in text and "\n| a | load1 | 4 × Some processor | 8 GiB |" in text
    assert f": {REMARK}\n" in text
    assert "| Path | a network, to 10.0.0.5 |" in text
    assert "| The load's processors | those of the agents |" in text
    shown = page.render(race, b"")
    assert "<h3>Agents</h3>" in shown and f'<td colspan="2">{REMARK}</td>' in shown
    out = io.StringIO()
    console = Console(file=out, width=160)
    for each in of_fleet(race):
        console.print(each)
    assert "load1" in out.getvalue() and "Their starts were 160 µs apart" in out.getvalue()


def test_a_local_fleet_has_no_network() -> None:
    path = fleet.path_of(gather(records("local:2")))
    assert path == "10.0.0.5, from agents on the same machine: no network"


def test_a_race_without_a_fleet_shows_none() -> None:
    race = gather(sample_race.records(rounds=1))
    assert (fleet.table(race), fleet.sentence(race), of_fleet(race)) == (None, "", [])
    assert fleet.path_of(race) == "loopback: no network"
    assert "Agents" not in markdown.render(race, {}) + page.render(race, b"")


def test_old_records_are_read_and_new_ones_are_complete() -> None:
    for each in (*sample_race.records(rounds=1)[:5], *records()):
        assert msgspec.json.decode(msgspec.json.encode(each), type=Record) == each


def test_another_fleet_is_a_difference() -> None:
    one, two = gather(sample_race.records(rounds=3)), gather(records())
    found = conditions.differences(one, two, changes(one, two, only=("bjoern",)))
    assert found == ["load from the race's machine, now 2 agents (a@load1, b@load2)"]


def test_agents_that_were_started_again_are_the_same_fleet() -> None:
    machine = gather(records()).machine
    assert machine is not None and machine.fleet is not None
    again = tuple(replace_name(each) for each in reversed(AGENTS))
    other = msgspec.structs.replace(machine.fleet, agents=again, where="tcp://10.0.0.2:8786")
    now = msgspec.structs.replace(machine, fleet=other)
    assert resume._other_part(machine, now) == ""
    elsewhere = msgspec.structs.replace(machine.fleet, server_address="10.0.0.6")
    now = msgspec.structs.replace(machine, fleet=elsewhere)
    assert resume._other_part(machine, now) == "--server-address 10.0.0.5"
    fewer = msgspec.structs.replace(machine.fleet, agents=AGENTS[:1])
    now = msgspec.structs.replace(machine, fleet=fewer)
    says = "load from 2 agents (a@load1, b@load2), now 1 agents (a@load1)"
    assert resume._other_part(machine, now) == says


def replace_name(agent: Agent) -> Agent:
    return msgspec.structs.replace(agent, name=f"{agent.name}-again")
