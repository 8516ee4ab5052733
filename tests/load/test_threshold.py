"""Conditions on a report."""

from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.load import threshold
from load.samples import report

LOST: dict[str, Any] = {"errors": {"timeout": 203}}
NONE = " got no correct response"
YOUNG: dict[str, Any] = {"unfinished": 8, "unfinished_us": [[900.0, 7], [19_500.0, 1]]}
FAILING = {"ok": 990, "errors": {"timeout": 8, "reset": 2}}
CASES: list[tuple[str, dict[str, Any], bool, str]] = [
    ("p99 < 8.1ms", {}, True, "p99 is 8.00 ms"),
    ("p99 < 8ms", {}, False, "p99 is 8.00 ms"),
    ("p99 <= 8ms", {}, True, "p99 is 8.00 ms"),
    ("p99.9<12001us", {}, True, "p99_9 is 12.0 ms"),
    ("p99_99 >= 1s", {}, False, "p99_99 is 15.0 ms"),
    ("MAX < 16.1 ms", {}, True, "max is 16.0 ms"),
    ("mean != 1.5ms", {}, False, "mean is 1.50 ms"),
    ("errors == 0", {}, True, "failed is 0"),
    ("errors == 0", FAILING, False, "failed is 10"),
    ("errors < 1%", FAILING, False, "failed is 1.000%"),
    ("errors <= 1%", FAILING, True, "failed is 1.000%"),
    ("timeout < 1%", FAILING, True, "timeout is 0.800%"),
    ("reset == 2", FAILING, True, "reset is 2"),
    ("requests_per_s > 9_999", {}, True, "requests_per_s is 10,000"),
    ("rate > 10000.5", {}, False, "requests_per_s is 10,000"),
    ("unfinished == 0", {"unfinished": 3}, False, "unfinished is 3"),
    ("generator_cpu < 90%", {}, True, "generator_cpu is 50.000%"),
    ("achieved_share > 0.99", {"achieved_share": 0.995}, True, "achieved_share is 99.500%"),
    ("achieved_share > 99%", {}, False, "achieved_share was not measured"),
    ("p50 < 1s", {"ok": 0}, False, "p50 was not measured"),
    ("errors < 1%", {"ok": 0}, False, "failed was not measured"),
    # Of 20,000 correct responses, 19,800 take at most 8 ms, and 19,980 at most 12 ms.
    ("p99 < 20ms", LOST | {"failed": 202}, True, "p99 is 16.0 ms"),
    ("p99 < 20ms", LOST | {"failed": 203}, False, "p99 is infinite: 203 of 20,203 requests" + NONE),
    ("p99 < 20ms", LOST | {"failed": 20}, True, "p99 is 12.0 ms"),
    (
        "p99.9 < 20ms",
        LOST | {"failed": 21},
        False,
        "p99_9 is infinite: 21 of 20,021 requests" + NONE,
    ),
    ("p50 < 20ms", LOST | {"failed": 203}, True, "p50 is 1.70 ms"),
    ("max < 20ms", LOST | {"failed": 1}, False, "max is infinite: 1 of 20,001 requests" + NONE),
    ("max > 20ms", LOST | {"failed": 1}, True, "max is infinite: 1 of 20,001 requests" + NONE),
    ("min < 20ms", LOST | {"failed": 1}, True, "min is 100 us"),
    ("mean < 20ms", LOST | {"failed": 1}, True, "mean is 1.50 ms"),
    # Of those that the end interrupts, only one has been due for too long.
    ("max < 20ms", YOUNG, True, "max is 16.0 ms"),
    ("max < 19ms", YOUNG, False, "max is infinite: 1 of 20,001 requests" + NONE),
]


@pytest.mark.parametrize(("text", "changes", "is_met", "says"), CASES)
def test_condition(text: str, changes: dict[str, Any], is_met: bool, says: str) -> None:
    made = report(**changes)
    condition = threshold.read(text)
    assert condition.is_met(made) is is_met
    assert condition.value_text(made) == says
    assert condition.text == text


MISTAKES = [
    ("p99", "--require: 'p99' is not a condition; give one like 'p99 < 20ms'"),
    ("p99 = 3ms", "--require: 'p99 = 3ms' is not a condition"),
    ("p42 < 3ms", "--require: 'p42' is not measured; give one of min, mean"),
    ("p99 < 3", "--require: '3' is not a latency; give one with its unit"),
    ("errors < few", "--require: 'few' is not a number"),
    ("rate > 5%", "--require: '5%' is not a number"),
]


@pytest.mark.parametrize(("text", "says"), MISTAKES)
def test_mistake_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        threshold.read(text)
    assert str(caught.value).startswith(says)


def test_every_class_of_the_engine_can_be_named() -> None:
    assert set(report()["errors"]) == set(threshold.CLASSES)
