"""Numbers with units."""

import pytest

from bolide import quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 10),
        ("0.5", 0.5),
        (".5s", 0.5),
        ("500ms", 0.5),
        ("30s", 30),
        ("2m", 120),
        ("1h", 3600),
    ],
)
def test_seconds(text: str, seconds: float) -> None:
    assert quantity.seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1", "1d", "1 0", "1e3", "nan", "inf", "10s10s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; give one like"):
        quantity.seconds(text)


def test_durations_end_at_a_month() -> None:
    with pytest.raises(ValueError, match="longer than 30 days"):
        quantity.seconds("721h")


@pytest.mark.parametrize(("text", "us"), [("500us", 500), ("20 ms", 20_000), ("1.5s", 1_500_000)])
def test_microseconds(text: str, us: float) -> None:
    assert quantity.microseconds(text) == pytest.approx(us)


@pytest.mark.parametrize("text", ["20", "2m", "-1ms", "ms"])
def test_a_latency_has_its_unit(text: str) -> None:
    with pytest.raises(ValueError, match="is not a latency; give one with its unit"):
        quantity.microseconds(text)


@pytest.mark.parametrize(
    ("text", "count"), [("7", 7), ("10k", 10_000), ("1.5k", 1500), ("2M", 2_000_000)]
)
def test_count(text: str, count: int) -> None:
    assert quantity.count(text) == count


@pytest.mark.parametrize("text", ["", "x", "1.5", "-3", "1.0001k"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        quantity.count(text)


def test_counts_end_somewhere() -> None:
    with pytest.raises(ValueError, match="is more than 1,000,000,000,000,000"):
        quantity.count("9" * 400)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "-"),
        (0, "0.00 us"),
        (9.994, "9.99 us"),
        (843.2, "843 us"),
        (999.6, "1.00 ms"),
        (12_340, "12.3 ms"),
        (999_600, "1.00 s"),
        (62_000_000, "62.0 s"),
    ],
)
def test_latency_text(us: float | None, text: str) -> None:
    assert quantity.latency_text(us) == text


def test_other_texts() -> None:
    assert quantity.duration_text(0.44) == "0.4 s"
    assert quantity.duration_text(125) == "2 min 05 s"
    assert quantity.bytes_text(512) == "512 B"
    assert quantity.bytes_text(1536) == "1.50 KiB"
    assert quantity.bytes_text(300 * 2**20) == "300 MiB"
    assert quantity.bytes_text(5000 * 2**30) == "5000 GiB"
