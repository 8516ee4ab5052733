"""Measure the generator beside wrk, both against the ceiling.

    python benches/generators.py --rounds 5 --seconds 2

The ceiling runs on the first core, the generators take turns on the last. Every response is checked
by ours (status, framing, length, all bytes but Date); wrk parses heads. CPU is processor time of
the generator's process per request. The last rows are an open loop at shares of the rate that
ours reached with keep-alive, and the memory that an open connection costs.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
DEPTH = 24
CONNECTIONS = 100
MANY_CONNECTIONS = 10_000
SHARES = (0.1, 0.25, 0.5, 0.75)
LAST_CORE = max(os.sched_getaffinity(0))

PIPELINE_LUA = """\
init = function(arguments)
  local batch = {{}}
  for index = 1, {depth} do batch[index] = wrk.format() end
  requests = table.concat(batch)
end
request = function() return requests end
"""


def pinned(core: int, command: list[str]) -> list[str]:
    """Give a command that runs on one core."""
    return ["taskset", "--cpu-list", str(core), *command]


@contextmanager
def ceiling(program: Path) -> Iterator[str]:
    """Run the ceiling and give its URL."""
    command = pinned(min(os.sched_getaffinity(0)), [str(program), "--until-eof"])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("listening on ").strip() + "/"
        finally:
            process.stdin.close()
            process.stdout.read()


def timed(command: list[str]) -> tuple[str, float]:
    """Run a generator; give its output, and its processor time in s.

    Raises: RuntimeError: it failed.
    """
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(pinned(LAST_CORE, command), stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return text, usage.ru_utime + usage.ru_stime


def ours(program: Path, url: str, *options: str) -> dict[str, float]:
    """Run our generator and give its figures.

    Raises: RuntimeError: a request failed.
    """
    text, cpu_s = timed([str(program), "--same", *options, url])
    report = json.loads(text)
    if report["failed"] or report["warm_up_failed"]:
        raise RuntimeError(f"requests failed: {report['errors']}")
    return {
        "requests_per_s": report["requests_per_s"],
        "cpu_ns": cpu_s / report["requests_sent"] * 1e9,
        "p50_us": report["latency_us"]["p50"],
        "p99_us": report["latency_us"]["p99"],
        "share": report["achieved_share"] or 0.0,
        "lag_p99_us": (report["schedule_lag_us"] or {}).get("p99", 0.0),
    }


def wrk(url: str, seconds: float, script: Path | None) -> dict[str, float]:
    """Run wrk and give its figures.

    Raises: RuntimeError: it failed, or requests did.
    """
    options = ["-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "--latency"]
    script_options = ["-s", str(script)] if script else []
    text, cpu_s = timed(["wrk", *options, *script_options, url])
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    total = re.search(r"(\d+) requests in", text)
    if rate is None or total is None or "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(text)
    figures = {"requests_per_s": float(rate[1]), "cpu_ns": cpu_s / int(total[1]) * 1e9}
    units = {"us": 1.0, "ms": 1e3, "s": 1e6}
    for name in ("50", "99"):
        found = re.search(rf"^\s+{name}%\s+([\d.]+)(us|ms|s)$", text, re.MULTILINE)
        if found:
            figures[f"p{name}_us"] = float(found[1]) * units[found[2]]
    return figures


def shown(name: str, trials: list[dict[str, float]]) -> str:
    """Give a table row of medians."""
    of = {key: median(trial[key] for trial in trials) for key in trials[0]}
    cells = [f"{of['requests_per_s']:,.0f}", f"{of['cpu_ns']:,.0f}"]
    # For a pipeline wrk reports 0 as the high percentiles.
    cells += [f"{of[key]:,.0f}" if of.get(key) else "not reported" for key in ("p50_us", "p99_us")]
    return f"| {name} | " + " | ".join(cells) + " |"


def closed_loops(load: Path, url: str, rounds: int, seconds: float) -> float:
    """Print the rows of closed loops; give the rate of ours with keep-alive."""
    trials: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "pipeline.lua"
        script.write_text(PIPELINE_LUA.format(depth=DEPTH))
        for _ in range(rounds):
            for name, depth in (("keep-alive", 1), (f"{DEPTH}-deep", DEPTH)):
                options = ["-c", str(CONNECTIONS), "-p", str(depth), "-d", str(seconds)]
                trials[f"{name}, ours"].append(ours(load, url, *options))
                if shutil.which("wrk"):
                    found = wrk(url, seconds, script if depth > 1 else None)
                    trials[f"{name}, wrk"].append(found)
    print("| closed loop | requests/s | CPU ns | p50 us | p99 us |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in sorted(trials, reverse=True):
        print(shown(name, trials[name]))
    return median(trial["requests_per_s"] for trial in trials["keep-alive, ours"])


def open_loops(load: Path, url: str, peak: float, rounds: int, seconds: float) -> None:
    """Print the rows of open loops at shares of a rate."""
    print("\n| open loop at | achieved / offered | lag p99 us | p50 us | p99 us |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for share in SHARES:
        options = ["-c", str(CONNECTIONS), "-d", str(seconds), "--rate", f"{peak * share:.0f}"]
        trials = [ours(load, url, *options) for _ in range(rounds)]
        of = {key: median(trial[key] for trial in trials) for key in trials[0]}
        cells = [f"{of['share']:.5f}"]
        cells += [f"{of[key]:,.0f}" for key in ("lag_p99_us", "p50_us", "p99_us")]
        print(f"| {share:.0%} of the peak | " + " | ".join(cells) + " |")


def peak_bytes(load: Path, url: str, connections: int) -> tuple[int, int]:
    """Load for a while; give the most memory that it took, and the most connections it held."""
    options = ["-c", str(connections), "-d", "2", url]
    command = pinned(LAST_CORE, [str(load), *options])
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            peak = int(found[1]) * 1024 if found else peak
            time.sleep(0.05)
        assert process.stdout is not None
        report = json.loads(process.stdout.read())
    if report["failed"]:
        raise RuntimeError(f"requests failed: {report['errors']}")
    return peak, report["connections_max"]


def memory(load: Path, url: str) -> None:
    """Print what a connection costs."""
    one_bytes, _ = peak_bytes(load, url, 1)
    many_bytes, held = peak_bytes(load, url, MANY_CONNECTIONS)
    each = (many_bytes - one_bytes) / (MANY_CONNECTIONS - 1)
    print(f"\n{held:,} connections held, {each:,.0f} bytes each")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per trial (2)")
    arguments = parser.parse_args()
    build = ["cargo", "build", "--release", "--quiet", "-p", "bolide-load"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    with ceiling(target / "bolide-ceiling") as url:
        load = target / "bolide-load"
        peak = closed_loops(load, url, arguments.rounds, arguments.seconds)
        open_loops(load, url, peak, max(1, arguments.rounds // 2), arguments.seconds)
        memory(load, url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
