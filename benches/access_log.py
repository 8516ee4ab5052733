"""Report which share of its speed each server keeps with its access log on, written to a file.

    python benches/access_log.py [--rounds 5] [--duration 2] [--only NAME]...

The servers are those of `bolide race` (`bolide race setup bolide uvicorn gunicorn granian`), on the
first processor, with one request at a time on each of 100 connections from the last processor.
Every round measures each server without its log and with it, one after the other. Bolide and
gunicorn write the combined format; uvicorn and Granian their own, which is shorter.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from bolide.lab.plan import contestant, study
from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import Trial
from bolide.lab.trial.trial import PROBLEMS, Conditions, Run

Command = list[str]


def bolide(command: Command, log: Path) -> Command:
    """Bolide with its log."""
    return [*command, "--access-log", str(log)]


def gunicorn(command: Command, log: Path) -> Command:
    """Gunicorn with its log, which is combined."""
    return [*command, "--access-logfile", str(log)]


def uvicorn(command: Command, log: Path) -> Command:
    """Uvicorn with its own format, written to a file by the handler of `logging`."""
    formatter = {"()": "uvicorn.logging.AccessFormatter", "use_colors": False}
    formatter["fmt"] = '%(client_addr)s - "%(request_line)s" %(status_code)s'
    config = _config(log, "uvicorn.access", formatter)
    without = [each for each in command if each != "--no-access-log"]
    return [*without, "--log-config", str(config), "--log-level", "info"]


def granian(command: Command, log: Path) -> Command:
    """Granian with its own format, written to a file by the handler of `logging`."""
    config = _config(log, "granian.access", {"format": "%(message)s"})
    without = [each for each in command if each != "--no-log"]
    at = without.index("--host")
    return [*without[:at], "--access-log", "--log-config", str(config), *without[at:]]


def _config(log: Path, logger: str, formatter: dict[str, object]) -> Path:
    file = {"class": "logging.FileHandler", "filename": str(log), "formatter": "access"}
    loggers = {logger: {"handlers": ["access"], "level": "INFO", "propagate": False}}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"access": formatter},
        "handlers": {"access": file},
        "loggers": loggers,
    }
    path = log.with_suffix(".json")
    path.write_text(json.dumps(config))
    return path


LOGGED: dict[str, Callable[[Command, Path], Command]] = {
    "bolide-native": bolide,
    "bolide-asgi": bolide,
    "bolide-wsgi": bolide,
    "uvicorn": uvicorn,
    "gunicorn-asgi": gunicorn,
    "gunicorn-gthread": gunicorn,
    "granian-asgi": granian,
    "granian-wsgi": granian,
}
"""How each contestant writes its log."""


def main() -> int:
    """Measure each; return 1 if one cannot be measured."""
    arguments = _arguments()
    failed = False
    print("| server | off, requests/s | on | kept | off, us | on, us | kept | bytes a line |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in arguments.only:
        try:
            print(_row(name, arguments.rounds, arguments.duration), flush=True)
        except PROBLEMS as error:
            print(f"| {name} | not measured: {error} |")
            failed = True
    return int(failed)


def _row(name: str, rounds: int, duration_s: float) -> str:
    """Return the medians of one server's rounds, and of their ratios.

    Raises:
        PROBLEMS: the server or the generator failed.
    """
    own = contestant.own()[name]
    rates: list[tuple[float, float]] = []
    costs: list[tuple[float, float]] = []
    line_bytes = 0.0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "access.log"
            command = tuple(LOGGED[name](list(own.entry.command), log))
            entry = msgspec.structs.replace(own.entry, command=command)
            logged = msgspec.structs.replace(own, entry=entry)
            off, on = (_measured(each, duration_s) for each in (own, logged))
            sent = on.requests_sent or on.ok or 1
            size = log.stat().st_size
            lines = log.read_bytes().count(b"\n")
            if lines < (on.ok or 0):
                print(f"{name}: {sent} requests, {lines} lines", file=sys.stderr)
            line_bytes = size / max(lines, 1)
        rates.append((off.requests_per_s or 0, on.requests_per_s or 0))
        costs.append((_cost_us(off), _cost_us(on)))
    kept = median(on / off for off, on in rates)
    saved = median(off / on for off, on in costs)
    off_rate, on_rate = (median(each) for each in zip(*rates, strict=True))
    off_us, on_us = (median(each) for each in zip(*costs, strict=True))
    return (
        f"| {own.entry.title} | {off_rate:,.0f} | {on_rate:,.0f} | {kept:.3f} "
        f"| {off_us:.2f} | {on_us:.2f} | {saved:.3f} | {line_bytes:.0f} |"
    )


def _measured(server: Contestant, duration_s: float) -> Trial:
    """Load a server of its own.

    Raises:
        PROBLEMS: the server or the generator failed.
    """
    cpus = sorted(os.sched_getaffinity(0))
    workloads = study.load("bench-servers").study.workloads
    [load] = (each for each in workloads if each.name == "asgi-bolide")
    load = msgspec.structs.replace(load, duration_s=duration_s)
    conditions = Conditions("access-log", (cpus[0],), (cpus[-1],), warm_up_s=0.5)
    run = Run(Slot(1, load, server), conditions)
    with run.running():
        return run.measured()


def _cost_us(trial: Trial) -> float:
    """Return the server's processor time per request."""
    return (trial.server.cpu_s or 0) * 1e6 / max(trial.ok or 0, 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each server (5)")
    parser.add_argument("--duration", type=float, default=2.0, help="of each load, in seconds (2)")
    parser.add_argument("--only", action="append", choices=LOGGED, help="only this; repeatable")
    arguments = parser.parse_args()
    arguments.only = arguments.only or list(LOGGED)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
