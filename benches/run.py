"""Measure Bolide against the ceiling and other servers, and print the tables (`make bench`)."""

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

from contestants import ROOT, Server, resumed, running
from echo import echoing
from environments import UnavailableError, environment, frameworks, versions
from measure import is_noisy, memory, timed_trial, trial
from peers import PEERS
from rows import GROUPS, NATIVE_GROUPS
from table import table
from workloads import BROWSER, DEF_1, Workload

SCHEMA_VERSION = 2
TRIAL_S = 0.5
"""How long the generator runs before another contestant has its turn: the speed of a shared machine
changes within seconds, and neighbours in time see the same speed."""
NOISY_REPEATS_MAX = 2
"""How often a trial is repeated beside which something else took more than a tenth of a core."""


def main() -> int:
    """Run the rounds, keep every trial as a line of JSON, and print the table."""
    arguments = _arguments()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    _build(target)
    cores = sorted(os.sched_getaffinity(0))
    server_core, generator_core = cores[0], cores[-1]
    if server_core == generator_core:
        print("one core only: server and generator share it", file=sys.stderr)
    bench = Bench(target, server_core, generator_core, arguments.seconds)
    bench.prepare(arguments.only)
    for number in range(1, arguments.rounds + 1):
        groups = [name for name in (*GROUPS, "memory") if name in arguments.only]
        random.shuffle(groups)
        for group in groups:
            bench.run_group(group, number)
    print(f"{arguments.rounds} rounds of {arguments.seconds:g} s, in trials of {TRIAL_S:g} s.")
    print(f"Medians; raw: {bench.path}\n")
    print(table(bench.trials))
    return 0


class Bench:
    """The trials of one run, written down as they come."""

    def __init__(self, target: Path, server_core: int, generator_core: int, seconds: float):
        self.target = target
        self.server_core = server_core
        self.generator_core = generator_core
        self.seconds = seconds
        self.trials: list[dict[str, Any]] = []
        self.unavailable: dict[str, str] = {}
        self.json_size: int | None = None
        folder = ROOT / "target" / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / time.strftime("%Y%m%dT%H%M%S.jsonl")
        self._write({"schema": SCHEMA_VERSION, "kind": "machine", **_machine()})

    def prepare(self, groups: list[str]) -> None:
        """Make what the groups need and write down its versions, before anything is measured."""
        pairs = [pair for group in groups for pair in GROUPS.get(group, ())]
        for name in sorted({contestant for contestant, _ in pairs} & PEERS.keys()):
            self._prepare(name, lambda name=name: environment(name, PEERS[name].requirements))
        if any(workload.is_framework for _, workload in pairs):
            self._prepare("frameworks", frameworks)

    def _prepare(self, name: str, make: Callable[[], Path]) -> None:
        try:
            folder = make()
        except UnavailableError as error:
            self.unavailable[name] = str(error)
            return
        folder = folder.parent if folder.name == "bin" else folder
        self._write({"schema": SCHEMA_VERSION, "kind": "versions", "of": name, **versions(folder)})

    def run_group(self, group: str, number: int) -> None:
        """Start the servers of a group, and load them in turns, in random order."""
        with ExitStack() as stack:
            if group == "memory":
                server = self._start(stack, "bolide", DEF_1)
                self._run("bolide", "memory", server, number, memory)
                return
            pairs = GROUPS[group]
            servers = [(*pair, self._start(stack, *pair)) for pair in pairs]
            turns = max(1, round(self.seconds / TRIAL_S))
            for turn in range((number - 1) * turns, number * turns):
                random.shuffle(servers)
                for contestant, workload, server in servers:
                    self._run_quietly(contestant, workload, server, turn)

    def _start(self, stack: ExitStack, contestant: str, workload: Workload) -> Server | str:
        """Start a server until the stack ends. Give why not if it cannot run."""
        if contestant in self.unavailable:
            return self.unavailable[contestant]
        try:
            size = 13
            if contestant == "ceiling" and workload is BROWSER:
                size = self._json_length()
            port = None
            if workload.asks_echo:
                port = stack.enter_context(echoing(self.generator_core))
            return stack.enter_context(
                running(contestant, workload, self.server_core, self.target, size, port)
            )
        except (UnavailableError, OSError) as error:
            return str(error)

    def _run_quietly(
        self, contestant: str, workload: Workload, server: Server | str, number: int
    ) -> None:
        """Run a trial until nothing else takes much of the cores, but not for ever."""
        measure = trial if workload.timed_application is None else timed_trial

        def load(server: Server) -> dict[str, Any]:
            return measure(server, workload, self.generator_core, self.target, TRIAL_S)

        for _ in range(1 + NOISY_REPEATS_MAX):
            if not is_noisy(self._run(contestant, workload.name, server, number, load)):
                break

    def _run(
        self,
        contestant: str,
        name: str,
        server: Server | str,
        number: int,
        measure: Callable[[Server], dict[str, Any]],
    ) -> dict[str, Any]:
        record: dict[str, Any] = {
            "schema": SCHEMA_VERSION,
            "kind": "trial",
            "round": number,
            "contestant": contestant,
            "workload": name,
            "failure": server if isinstance(server, str) else None,
        }
        if isinstance(server, Server):
            try:
                with resumed(server):
                    record |= measure(server)
            except (UnavailableError, OSError, subprocess.TimeoutExpired) as error:
                record["failure"] = str(error)
        failed = {name: count for name, count in record.get("errors", {}).items() if count}
        if failed or record.get("warm_up_failed"):
            before = record["warm_up_failed"]
            record["failure"] = f"requests failed: {failed}, {before} in the warm-up"
        self._keep(record)
        self._write(record)
        print(f"round {number}: {contestant} {name}: {_shown(record)}", file=sys.stderr, flush=True)
        return record

    def _keep(self, record: dict[str, Any]) -> None:
        """Keep a trial; of repeated ones that in which the least else was going on."""
        key = ("round", "contestant", "workload")
        for index, kept in enumerate(self.trials):
            if all(kept[name] == record[name] for name in key):
                if record["failure"] or record["others_cpu"] < kept["others_cpu"]:
                    self.trials[index] = record
                return
        self.trials.append(record)

    def _json_length(self) -> int:
        """Give the length of Bolide's JSON content; that of the handler's dict if it cannot run."""
        if self.json_size is None:
            try:
                with running("bolide", BROWSER, self.server_core, self.target) as server:
                    self.json_size = len(server.body)
            except UnavailableError:
                self.json_size = 64
        return self.json_size

    def _write(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def _shown(record: dict[str, Any]) -> str:
    if record["failure"] is not None:
        return str(record["failure"])
    if "application_us" in record:
        application_us, server_us = record["application_us"], record["server_us"]
        return f"application {application_us:.1f} us, server {server_us:.1f} us"
    rate = record.get("requests_per_s")
    return f"{rate:,.0f} requests/s" if rate is not None else "done"


def _leave(number: int, _frame: FrameType | None) -> None:
    """Leave by an exception, so that every server is ended."""
    sys.exit(128 + number)


def _build(target: Path) -> None:
    command = ["cargo", "build", "--release", "--quiet", "-p", "bolide-load"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def _machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo").read_text()
    models = [line.partition(":")[2].strip() for line in info.splitlines() if "model name" in line]
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="seconds per contestant and round (3)"
    )
    parser.add_argument("--quick", action="store_true", help="one round of one second")
    parser.add_argument("--all", action="store_true", help="also ASGI, WSGI and frameworks")
    parser.add_argument(
        "--only", action="append", choices=[*GROUPS, "memory"], help="only this group; repeatable"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 1.0
    groups = [*(GROUPS if arguments.all else NATIVE_GROUPS), "memory"]
    arguments.only = arguments.only or groups
    return arguments


if __name__ == "__main__":
    sys.exit(main())
