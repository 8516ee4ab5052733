"""The energy that the processors use, as the kernel shows it (RAPL, by the powercap interface).

It is that of whole processor packages: of the server, the load generator and everything else. Most
kernels show it to root only, and virtual machines have none.
"""

from __future__ import annotations

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


class Meter:
    """Measures the energy from its creation on."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        """Read the counters below a folder."""
        self._folder = folder
        self._first_uj = _counters(folder)

    def used_j(self) -> float | None:
        """Return the energy of all packages since then; None if a counter cannot be read."""
        last_uj = _counters(self._folder)
        if not last_uj or last_uj.keys() != self._first_uj.keys():
            return None
        total_uj = 0
        for zone, (value_uj, range_uj) in last_uj.items():
            risen_uj = value_uj - self._first_uj[zone][0]
            total_uj += risen_uj + range_uj if risen_uj < 0 else risen_uj  # it wraps around
        return total_uj / 1e6


def _counters(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the counter of each package and the greatest value; {} if one cannot be read."""
    found = {}
    try:
        for zone in sorted(folder.glob("intel-rapl:*")):  # AMD's are called so too
            if (zone / "name").read_text(encoding="ascii").startswith("package"):
                texts = (
                    (zone / name).read_text(encoding="ascii")
                    for name in ("energy_uj", "max_energy_range_uj")
                )
                value, most = map(int, texts)
                found[zone.name] = (value, most)
    except (OSError, ValueError):
        return {}
    return found
