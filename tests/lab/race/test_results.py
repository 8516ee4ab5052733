"""The file of a race's records: as it grows, and packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.lab import machine, results

MACHINE = machine.describe()


def _written(folder: Path) -> Path:
    with results.Journal(folder) as journal:
        journal.write(MACHINE)
    return folder / results.FILE_NAME


def test_packed_results_are_read_the_same(tmp_path: Path) -> None:
    path = _written(tmp_path)
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert results.read(tmp_path) == [MACHINE]


def test_results_that_are_not_packed_come_first(tmp_path: Path) -> None:
    path = _written(tmp_path)
    Path(f"{path}.gz").write_bytes(b"older")
    assert results.read(tmp_path) == [MACHINE]


@pytest.mark.parametrize("kept", [0, 12, -9])
def test_damaged_ones_are_named(tmp_path: Path, kept: int) -> None:
    path = _written(tmp_path)
    packed = gzip.compress(path.read_bytes())[:kept]
    Path(f"{path}.gz").write_bytes(packed or b"no gzip")
    path.unlink()
    with pytest.raises(ConfigError, match=r"results\.jsonl\.gz is damaged: "):
        results.read(tmp_path)


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*results\.jsonl: No such file"):
        results.read(tmp_path)
