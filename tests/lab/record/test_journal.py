"""The file of a race's records: as it grows, and packed."""

from __future__ import annotations

import gzip
import resource
from pathlib import Path

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab.record import journal, machine
from bolide.lab.record.journal import FILE_NAME, Journal, read
from bolide.lab.record.schema import Trial
from lab import sample_race

MACHINE = machine.describe()


def _written(folder: Path) -> Path:
    with Journal(folder) as opened:
        opened.write(MACHINE)
    return folder / FILE_NAME


def test_packed_results_are_read_the_same(tmp_path: Path) -> None:
    path = _written(tmp_path)
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert read(tmp_path) == [MACHINE]


def test_results_that_are_not_packed_come_first(tmp_path: Path) -> None:
    path = _written(tmp_path)
    Path(f"{path}.gz").write_bytes(b"older")
    assert read(tmp_path) == [MACHINE]


@pytest.mark.parametrize("kept", [0, 12, -9])
def test_damaged_ones_are_named(tmp_path: Path, kept: int) -> None:
    path = _written(tmp_path)
    packed = gzip.compress(path.read_bytes())[:kept]
    Path(f"{path}.gz").write_bytes(packed or b"no gzip")
    path.unlink()
    with pytest.raises(ConfigError, match=r"results\.jsonl\.gz is damaged: "):
        read(tmp_path)


@pytest.mark.parametrize("is_packed", [True, False])
def test_no_more_is_read_than_a_race_writes(
    is_packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BYTES_MAX", 1 << 20)
    content = b" " * (1 << 20) + b"\n"
    path = tmp_path / (f"{FILE_NAME}.gz" if is_packed else FILE_NAME)
    path.write_bytes(gzip.compress(content) if is_packed else content)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert str(caught.value) == f"{path} has more than 1 MiB of records, the most that is read"


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"kind":"study","x":' + b"[" * 100_000])
def test_a_line_that_is_nested_too_deeply_is_named(line: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(line + b"\n")
    with pytest.raises(ConfigError, match=r"results\.jsonl, line 1 is not a record of a race: "):
        read(tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"requests_per_s":112218.85', '"requests_per_s":0.0'),
        ('"requests_per_s":112218.85', '"requests_per_s":-1'),
        ('"failed":0', '"failed":-1'),
        ('"is_valid":true,', '"is_valid":true,"bytes_per_s":-1,'),
        ('"connections":100', '"connections":0'),
        ('"pipeline_depth":24', '"pipeline_depth":0'),
    ],
)
def test_no_figure_is_negative_and_none_published_is_0(
    before: str, after: str, tmp_path: Path
) -> None:
    records = [each for each in sample_race.records(rounds=1) if getattr(each, "tool", "") != "wrk"]
    path = sample_race.write(tmp_path, records) / FILE_NAME
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(ConfigError, match="is not a record of a race: Expected `(int|float)` >"):
        read(tmp_path)


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*results\.jsonl: No such file"):
        read(tmp_path)


def test_one_race_at_a_time_writes_a_folder(tmp_path: Path) -> None:
    with Journal(tmp_path) as opened:
        with pytest.raises(ConfigError, match="another race is writing .*; name another --out"):
            Journal(tmp_path)
        opened.write(MACHINE)
    _written(tmp_path)
    assert read(tmp_path) == [MACHINE, MACHINE]


def test_a_full_disk_is_one_line_and_keeps_the_lines_before(tmp_path: Path) -> None:
    size = _written(tmp_path).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(tmp_path) as opened:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, limits[1]))
        try:
            with pytest.raises(ConfigError) as caught:
                opened.write(MACHINE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value) == f"cannot write {tmp_path}: File too large"
    assert read(tmp_path) == [MACHINE]
    _written(tmp_path)
    assert read(tmp_path) == [MACHINE, MACHINE]


@pytest.mark.parametrize("kept", range(0, 80, 7))
def test_a_line_that_was_cut_off_goes(kept: int, tmp_path: Path) -> None:
    path = _written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:kept])
    assert read(tmp_path) == [MACHINE]
    _written(tmp_path)
    assert path.read_bytes() == whole + whole


NAMES = ["../x/pwned", "/var/abs", "a\0b", "", "a\n"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of", ["study", "workload", "contestant"])
def test_a_name_that_is_no_files_is_refused(name: str, of: str, tmp_path: Path) -> None:
    plan = msgspec.to_builtins(sample_race.studies()[0])
    field = msgspec.to_builtins(sample_race.contestants()[0])
    if of == "study":
        plan["name"] = name
    elif of == "workload":
        plan["workloads"][0]["name"] = name
    else:
        field["name"] = name
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in (plan, field))
    (tmp_path / FILE_NAME).write_bytes(lines)
    number = 2 if of == "contestant" else 1
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    said = str(caught.value)
    assert f"results.jsonl, line {number} is not a record of a race: Expected `str` matc" in said
    assert said.endswith("name`") and "\n" not in said


def test_a_trial_of_such_a_name_is_refused(tmp_path: Path) -> None:
    found = [each for each in sample_race.records(rounds=1) if isinstance(each, Trial)][:1]
    wrong = [msgspec.structs.replace(each, workload="../x") for each in found]
    with pytest.raises(ConfigError, match=r"line 1 is not a record .* at `\$\.workload`"):
        read(sample_race.write(tmp_path, wrong))


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"kind":"trial"}\n')
    with pytest.raises(ConfigError, match=r"results\.jsonl, line 2 is not a record of a race: "):
        read(tmp_path)
