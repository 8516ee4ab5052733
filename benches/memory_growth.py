"""Report whether the worker's memory grows with the number of requests.

    python benches/memory_growth.py [--requests 5000000] [--only NAME]...

For each workload one server is started, a tenth of the requests is a warm-up, and the rest comes in
twenty steps, after each of which the worker's resident memory is read. A straight line through
these says how many bytes a request leaves; memory that is only used anew is a level line.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import linear_regression

from contestants import ROOT, Server, pinned, programs, running
from environments import UnavailableError
from measure import process_cpu_s, resident_bytes, session_processes
from workloads import ASGI_24, ASYNC_24, BROWSER, DEF_24, WSGI_24, Workload

WORKLOADS = (DEF_24, ASYNC_24, BROWSER, ASGI_24, WSGI_24)
STEPS = 20
BYTES_PER_REQUEST_MAX = 0.05


def main() -> int:
    """Measure each workload; give 1 if one grows or cannot be measured."""
    arguments = _arguments()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    cores = sorted(os.sched_getaffinity(0))
    is_level = True
    for workload in WORKLOADS:
        if workload.name not in arguments.only:
            continue
        try:
            with running("bolide", workload, cores[0], target) as server:
                samples = _samples(server, workload, arguments.requests, cores[-1], target)
        except UnavailableError as error:
            print(f"{workload.name}: not measured: {error}")
            is_level = False
            continue
        slope = linear_regression(*zip(*samples, strict=True)).slope
        is_level &= slope <= BYTES_PER_REQUEST_MAX
        verdict = "level" if slope <= BYTES_PER_REQUEST_MAX else "**grows**"
        first, last = samples[0][1], samples[-1][1]
        print(
            f"{workload.name}: {slope:.4f} bytes per request ({first / 2**20:.2f} to "
            f"{last / 2**20:.2f} MiB in {samples[-1][0]:,} requests): {verdict}",
            flush=True,
        )
    return 0 if is_level else 1


def _samples(
    server: Server, workload: Workload, requests: int, core: int, target: Path
) -> list[tuple[int, int]]:
    """Give pairs of requests made and the worker's memory then. Raises: UnavailableError."""
    _drive(server, workload, max(1, requests // 10), core, target)
    worker = max(session_processes(server.process.pid), key=process_cpu_s)
    samples = [(0, resident_bytes(worker))]
    step = max(1, requests // STEPS)
    for number in range(1, STEPS + 1):
        _drive(server, workload, step, core, target)
        samples.append((number * step, resident_bytes(worker)))
    return samples


def _drive(server: Server, workload: Workload, requests: int, core: int, target: Path) -> None:
    _, generator = programs(target)
    command = [str(generator), "-c", str(workload.connections), "-p", str(workload.depth)]
    command += ["-n", str(requests), "--length", str(len(server.body))]
    for name, value in workload.fields:
        command += ["-H", f"{name}: {value}"]
    command.append(f"http://127.0.0.1:{server.port}{workload.target}")
    done = subprocess.run(
        pinned(core, command), capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode != 0:
        raise UnavailableError(f"the generator failed: {done.stderr.strip()}")
    errors = {name: count for name, count in json.loads(done.stdout)["errors"].items() if count}
    if errors:
        raise UnavailableError(f"requests failed: {errors}")


def _arguments() -> argparse.Namespace:
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5_000_000, help="of each (5,000,000)")
    parser.add_argument("--only", action="append", choices=names, help="only this; repeatable")
    arguments = parser.parse_args()
    arguments.only = arguments.only or names
    return arguments


if __name__ == "__main__":
    sys.exit(main())
