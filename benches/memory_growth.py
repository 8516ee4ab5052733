"""Report whether the worker's memory grows with the number of requests.

    python benches/memory_growth.py [--requests 5000000] [--only NAME]...

The servers and loads are those of the studies `bench` and `bench-servers`. For each one server is
started, a tenth of the requests is a warm-up, and the rest comes in twenty steps, after each of
which the server's resident memory is read. A straight line through these says how many bytes a
request leaves; memory that is only used anew is a level line.
"""

import argparse
import os
import sys
from statistics import linear_regression

import msgspec

from bolide.lab.plan import contestant, study
from bolide.lab.plan.schedule import Slot
from bolide.lab.tools import ToolError
from bolide.lab.trial.trial import PROBLEMS, Conditions, Run

SERVED = {
    "def": ("bench", "deep-bolide", "bolide-native"),
    "async-def": ("bench", "deep-bolide", "bolide-async"),
    "browser": ("bench", "browser-bolide", "bolide-native"),
    "asgi": ("bench-servers", "asgi-deep-bolide", "bolide-asgi"),
    "wsgi": ("bench-servers", "wsgi-deep-bolide", "bolide-wsgi"),
}
"""Study, workload and contestant of each."""
STEPS = 20
BYTES_PER_REQUEST_MAX = 0.05


def main() -> int:
    """Measure each; return 1 if one grows or cannot be measured."""
    arguments = _arguments()
    is_level = True
    for name in arguments.only:
        try:
            samples = _samples(*SERVED[name], arguments.requests)
        except PROBLEMS as error:
            print(f"{name}: not measured: {error}")
            is_level = False
            continue
        slope = linear_regression(*zip(*samples, strict=True)).slope
        is_level &= slope <= BYTES_PER_REQUEST_MAX
        verdict = "level" if slope <= BYTES_PER_REQUEST_MAX else "**grows**"
        first, last = samples[0][1], samples[-1][1]
        print(
            f"{name}: {slope:.4f} bytes per request ({first / 2**20:.2f} to {last / 2**20:.2f} MiB"
            f" in {samples[-1][0]:,} requests): {verdict}",
            flush=True,
        )
    return 0 if is_level else 1


def _samples(name: str, workload: str, server: str, requests: int) -> list[tuple[int, int]]:
    """Return pairs of requests made and the server's memory then.

    Raises:
        PROBLEMS: the server or the generator failed.
    """
    cpus = sorted(os.sched_getaffinity(0))
    [load] = (each for each in study.load(name).study.workloads if each.name == workload)
    step = max(1, requests // STEPS)
    load = msgspec.structs.replace(load, duration_s=None, requests_total=step)
    conditions = Conditions(name, (cpus[0],), (cpus[-1],), warm_up_s=0.0)
    run = Run(Slot(1, load, contestant.own()[server]), conditions)
    with run.running():
        for _ in range(STEPS // 10):
            _drive(run)
        samples = [(0, run.resident_bytes())]
        for number in range(1, STEPS + 1):
            _drive(run)
            samples.append((number * step, run.resident_bytes()))
    return samples


def _drive(run: Run) -> None:
    """Make the requests of a step.

    Raises:
        PROBLEMS: one of them failed.
    """
    found = run.measured()
    if found.failed:
        raise ToolError(f"requests failed: {found.errors}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5_000_000, help="of each (5,000,000)")
    parser.add_argument("--only", action="append", choices=SERVED, help="only this; repeatable")
    arguments = parser.parse_args()
    arguments.only = arguments.only or list(SERVED)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
