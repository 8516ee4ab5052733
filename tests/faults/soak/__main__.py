"""Runs the soak: `python -m faults.soak --minutes 30`.

It exits with 1 and the reasons if a request is lost, if the ledgers of clients and application
differ, if something is left afterwards, or if a process grows. USR1 lets the clients rest, and go
on: for a machine on which something else is measured meanwhile.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from faults.recording import machine
from faults.soak.running import Outcome, Plan, Soak

RECORDED_AS = "tests/faults/soak"


def main() -> int:
    """Run it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long clients run (30)")
    parser.add_argument("--pause-ms", type=float, default=20.0, help="between two requests (20)")
    arguments = parser.parse_args()
    plan = Plan(arguments.minutes * 60, pause_s=arguments.pause_ms / 1000)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(plan, Path(folder))
        signal.signal(signal.SIGUSR1, soak.pause_or_continue)
        outcome = soak.run()
    show(outcome)
    if name := os.environ.get("FAULTS_RECORD"):
        record(outcome, Path(name))
    return 1 if outcome.reasons else 0


def show(outcome: Outcome) -> None:
    """Print what each process held, and the verdict."""
    for (name, quantity), found in sorted(outcome.trends.items()):
        first, last = outcome.samples.ends(name, quantity)
        print(
            f"{name}: {quantity} {first:.0f} to {last:.0f}, slope {found.slope * 3600:+.1f} "
            f"({found.low * 3600:+.1f} to {found.high * 3600:+.1f}) per hour"
        )
    print(measured(outcome))
    for reason in outcome.reasons:
        print(f"failed: {reason}", file=sys.stderr)


def measured(outcome: Outcome) -> str:
    """Return the result in one line."""
    workers = {key: found for key, found in outcome.trends.items() if "worker" in key[0]}

    def most(quantity: str) -> str:
        slopes = [found.growth for (_, each), found in workers.items() if each == quantity]
        return f"{max(slopes, default=0.0):+.1f}"

    count = len({name for name, _ in workers})
    seconds = max((found.seconds for found in workers.values()), default=0.0)
    return (
        f"{outcome.seconds / 60:.0f} minutes, {outcome.complete:,} requests, {count} "
        f"workers; greatest trend of a worker in the last {seconds / 60:.0f} minutes: "
        f"memory {most('KiB')} KiB, descriptors {most('descriptors')}, threads {most('threads')}, "
        f"tasks {most('tasks')}"
    )


def record(outcome: Outcome, path: Path) -> None:
    """Write the result into the record of the fault matrix."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[RECORDED_AS] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "lost": sum("lost" in reason for reason in outcome.reasons),
        "machine": machine(),
        "measured": measured(outcome),
        "outcome": "failed" if outcome.reasons else "passed",
        "row": 30,
        "seconds": round(outcome.seconds, 1),
    }
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
