"""The energy of the processor packages, from files like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.lab.record.energy import Meter


def zone(folder: Path, number: str, name: str, microjoules: int, most: int = 1000) -> Path:
    path = folder / f"intel-rapl:{number}"
    path.mkdir(exist_ok=True)
    (path / "name").write_text(f"{name}\n")
    (path / "energy_uj").write_text(f"{microjoules}\n")
    (path / "max_energy_range_uj").write_text(f"{most}\n")
    return path


def test_packages_are_added_up_and_their_parts_are_not(tmp_path: Path) -> None:
    def show(first: int, second: int) -> None:
        zone(tmp_path, "0", "package-0", first, 262_143_328_850)
        zone(tmp_path, "0:0", "core", first)
        zone(tmp_path, "1", "package-1", second, 262_143_328_850)
        zone(tmp_path, "2", "psys", second)

    show(5_000_000, 7_000_000)
    meter = Meter(tmp_path)
    show(8_500_000, 8_000_000)
    assert meter.used_j() == pytest.approx(4.5)


def test_a_counter_that_wraps_around(tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 900)
    meter = Meter(tmp_path)
    zone(tmp_path, "0", "package-0", 100)
    assert meter.used_j() == pytest.approx(200e-6)


def test_what_is_not_shown_is_unknown(tmp_path: Path) -> None:
    assert Meter(tmp_path / "none").used_j() is None
    assert Meter(tmp_path).used_j() is None
    path = zone(tmp_path, "0", "package-0", 5)
    meter = Meter(tmp_path)
    (path / "energy_uj").unlink()  # as if it could not be read
    assert meter.used_j() is None
    (path / "energy_uj").write_text("unreadable")
    assert meter.used_j() is Meter(tmp_path).used_j() is None
