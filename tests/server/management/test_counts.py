"""What is kept of the workers' counts, and their text."""

from __future__ import annotations

import pytest

from bolide import _core
from bolide.server.management.counts import CAUSES, Family, Tally, by_family, cause_of, families
from bolide.server.management.exposition import text


class Numbers:
    """What a worker would have counted."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = [*numbers]

    def read(self) -> list[int]:
        return self.numbers

    def clear(self) -> None:
        self.numbers = [0] * len(self.numbers)


@pytest.fixture
def two_families(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (Family("bolide_a", "counter", "", "A."), Family("bolide_b", "gauge", "", "B."))
    monkeypatch.setattr("bolide.server.management.counts.families", lambda: found)


@pytest.mark.usefixtures("two_families")
def test_counters_stay_and_gauges_end_with_their_worker() -> None:
    tally, one, other = Tally(), Numbers(3, 4), Numbers(10, 20)
    assert tally.totals([one, other]) == [13, 24]
    tally.release(one)
    assert one.numbers == [0, 0]
    assert tally.totals([other]) == [13, 20]
    tally.release(other)
    assert tally.totals([]) == [13, 0]
    assert tally.take() in (one, other)
    assert tally.take() in (one, other)
    assert isinstance(tally.take(), _core.Counts)


def test_each_number_of_a_worker_has_a_family() -> None:
    numbers = _core.Counts().read()
    assert set(numbers) == {0}
    assert sum(family.length for family in families()) == len(numbers)
    found = by_family(list(range(len(numbers))))
    assert [*found] == [family.name for family in families()]
    assert sum(len(part) for _, part in found.values()) == len(numbers)


@pytest.mark.parametrize(
    ("how", "is_asked", "is_started", "cause"),
    [
        ("exit status 0", True, True, "stopped"),
        ("signal SIGKILL", True, True, "killed"),
        ("exit status 3", False, False, "failed_start"),
        ("exit status 1", False, True, "exit"),
        ("signal SIGSEGV", False, True, "signal"),
    ],
)
def test_the_end_of_a_worker_has_a_cause(
    how: str, is_asked: bool, is_started: bool, cause: str
) -> None:
    assert cause_of(how, is_asked=is_asked, is_started=is_started) == cause
    assert cause in CAUSES


def test_the_end_of_a_worker_that_hung_has_a_cause_of_its_own() -> None:
    for how in ("signal SIGKILL", "exit status 0"):
        assert cause_of(how, is_asked=True, is_started=True, has_hung=True) == "timeout"
    assert "timeout" in CAUSES


def test_families_are_written_as_openmetrics() -> None:
    counter = Family("a_bytes", "counter", "bytes", 'A "b"\\\n.', (("x", ("1", '"')),))
    histogram = Family("h_seconds", "histogram", "seconds", "H.", (), (0.001, 1.0))
    assert text([(counter, [1, 2]), (histogram, [1, 2, 3, 1_500_000_000])]) == (
        "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n"
        '# HELP a_bytes A \\"b\\"\\\\\\n.\n'
        'a_bytes_total{x="1"} 1\na_bytes_total{x="\\""} 2\n'
        "# TYPE h_seconds histogram\n# UNIT h_seconds seconds\n# HELP h_seconds H.\n"
        'h_seconds_bucket{le="0.001"} 1\nh_seconds_bucket{le="1.0"} 3\n'
        'h_seconds_bucket{le="+Inf"} 6\nh_seconds_count 6\nh_seconds_sum 1.5\n# EOF\n'
    )
