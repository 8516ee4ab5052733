"""A race that nobody ran: five studies and a dozen contestants, the same at every call."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec

from bolide.lab.record.journal import FILE_NAME
from bolide.lab.record.schema import (
    Contestant,
    Failure,
    GeneratorUse,
    Machine,
    Published,
    Record,
    ServerUse,
    Study,
    Trial,
    Workload,
)

LEVELS: tuple[int, ...] = (
    100,
    200,
    300,
    400,
    500,
    600,
    700,
    800,
    900,
    1000,
    1500,
    2000,
    3000,
    4000,
    5000,
    6000,
)
LEVELS += (7000, 8000, 10000)

# name, title, interface, language, requests/s of one processor
SERVERS = [
    ("ceiling", "The ceiling", "none", "Rust", 165e3),
    ("bolide-native", "Bolide (native)", "native", "Python, Rust", 158e3),
    ("bolide-asgi", "Bolide (ASGI)", "asgi", "Python, Rust", 131e3),
    ("bolide-wsgi", "Bolide (WSGI)", "wsgi", "Python, Rust", 122e3),
    ("japronto", "Japronto", "native", "Python, C", 149e3),
    ("bjoern", "bjoern", "wsgi", "Python, C", 110e3),
    ("granian-rsgi", "Granian (RSGI)", "rsgi", "Python, Rust", 62e3),
    ("granian-asgi", "Granian (ASGI)", "asgi", "Python, Rust", 50e3),
    ("uvicorn", "uvicorn (uvloop, httptools)", "asgi", "Python", 29e3),
    ("uwsgi", "uWSGI (5 processes)", "wsgi", "Python, C", 33e3),
    ("gunicorn-gthread", "Gunicorn (gthread)", "wsgi", "Python", 6.1e3),
    ("aiohttp-app-uvloop", "aiohttp + Application (uvloop)", "native", "Python", 11e3),
    ("aiohttp-app", "aiohttp + Application (asyncio)", "native", "Python", 7.9e3),
    ("asyncio-httptools-uvloop", "asyncio + httptools (uvloop)", "native", "Python", 41e3),
    ("asyncio-httptools", "asyncio + httptools (asyncio)", "native", "Python", 22e3),
]

LOOPS = (" (uvloop)", " (asyncio)")


def contestants() -> list[Contestant]:
    ready = [
        Contestant(
            name=name,
            title=title,
            role="ceiling" if name == "ceiling" else "server",
            interface=interface,
            version="0.1.0" if name.startswith("bolide") else "2.7.4",
            language=language,
            settings=f"{name} app:app --host 127.0.0.1 --port 8000 --workers 1",
            state="ready",
            reason="",
            program=title.partition(" (")[0] if title.endswith(LOOPS) else "",
            loop="uvloop"
            if title.endswith(LOOPS[0])
            else "asyncio"
            if title.endswith(LOOPS)
            else "",
        )
        for name, title, interface, language, _ in SERVERS
    ]
    absent = Contestant(
        name="swoole",
        title="Swoole",
        role="server",
        interface="php",
        version=None,
        language="PHP, C++",
        settings="php server.php",
        state="cannot run here",
        reason="Debian 12 has no package of Swoole: pecl install swoole",
    )
    return [*ready, absent]


def study(name: str, title: str, workloads: list[Workload], *published: Published) -> Study:
    return Study(
        name=name,
        title=title,
        document=f"A document about {name}",
        rounds=7,
        duration_s=5.0,
        workloads=tuple(workloads),
        published=published,
    )


def workload(name: str, tool: str, connections: int, **more: object) -> Workload:
    fields = {"name": name, "tool": tool, "connections": connections, "duration_s": 5.0, **more}
    return msgspec.convert(fields, Workload)


def studies() -> list[Study]:
    not_2xx = "all 10,000 responses were errors (Non-2xx responses: 10000)"
    loops = {
        "aiohttp-app-uvloop": 10265.0,
        "aiohttp-app": 6438.0,
        "asyncio-httptools-uvloop": 25234.0,
        "asyncio-httptools": 21008.0,
    }
    return [
        study(
            "python-common",
            "Common Python servers on one core",
            [workload("c2000-ab", "ab", 2000, is_persistent=False, requests_total=10000)],
            Published(
                contestant="uwsgi",
                workload="c2000-ab",
                requests_per_s=14484.78,
                does_not_hold=not_2xx,
            ),
            Published(
                contestant="aiohttp-app",
                workload="c2000-ab",
                requests_per_s=3434.65,
                latency_ms=204.0,
            ),
        ),
        study(
            "pipelining",
            "A million requests per second with Python",
            [
                workload("pipelined-wrk", "wrk", 100, pipeline_depth=24),
                workload("single-wrk", "wrk", 100),
            ],
            Published(contestant="japronto", workload="pipelined-wrk", requests_per_s=1214440.0),
        ),
        study(
            "php",
            "spf, Swoole and php-fpm",
            [
                workload("close-webbench", "webbench", 100, is_persistent=False),
                workload("kept-ab", "ab", 100),
            ],
            Published(contestant="bjoern", workload="kept-ab", requests_per_s=112218.85),
        ),
        study(
            "wsgi",
            "WSGI servers from 100 to 10,000 connections",
            [workload(f"c{level}-wrk", "wrk", level) for level in LEVELS],
            Published(contestant="uwsgi", workload="c100-wrk", requests_per_s=29000.0),
        ),
        study(
            "aiohttp-uvloop",
            "aiohttp and uvloop",
            [
                workload("threads100-wrk", "wrk", 10000, threads=100),
                workload("threads2-wrk", "wrk", 10000, threads=2),
            ],
            *(
                Published(contestant=name, workload="threads100-wrk", requests_per_s=rate)
                for name, rate in loops.items()
            ),
        ),
    ]


def machine() -> Machine:
    return Machine(
        kernel="6.18.5",
        cpu_model="A processor of some kind @ 2.50GHz",
        cpus=2,
        memory_bytes=24 * 2**30,
        python="3.11.7",
        sysctls={"net.core.somaxconn": "4096", "net.ipv4.tcp_syncookies": "1"},
        limits={"nofile": 20000},
        virtualisation="kvm",
        started_at="2026-11-21T14:00:00Z",
        bolide_version="0.1.0",
    )


def trial(study: Study, load: Workload, name: str, base: float, round_: int) -> Trial:
    dice = random.Random(f"{study.name} {load.name} {name} {round_}")  # noqa: S311 - no secret
    spread = 0.12 if name == "uwsgi" else 0.012
    rate = base * dice.gauss(1, spread) * (1 + 5 * (load.pipeline_depth > 1) * (base > 1e5))
    rate *= 0.35 if not load.is_persistent else 1 / (1 + load.connections / 40_000)
    common: dict[str, Any] = {
        "study": study.name,
        "workload": load.name,
        "contestant": name,
        "round": round_,
        "tool": load.tool,
        "tool_version": "4.1.0",
        "command": [load.tool, "http://127.0.0.1:8000/"],
        "started_at": "2026-11-21T14:00:05Z",
    }
    if name == "gunicorn-gthread" and load.connections >= 4000:
        failure = Failure("timeout", "no response within 5 s")
        return Trial(**common, is_valid=False, failure=failure, verdict="failed")
    failed = int(rate / 40) if name == "bjoern" and load.connections >= 1000 else 0
    p50 = load.connections * load.pipeline_depth / rate * 1e6 * 0.8
    rows = [
        (round(p50 * 1.15**n, 1), int(2e4 * math.exp(-((n - 1) ** 2) / 5)) + 3)
        for n in range(-4, 14)
    ]
    has_latency = load.tool != "webbench"
    return Trial(
        **common,
        seconds=5.0,
        is_valid=True,
        ok=int(rate * 5),
        failed=failed,
        errors={"reset": failed} if failed else {},
        requests_per_s=rate,
        latency_us={"mean": p50 * 1.2, "p50": p50, "p90": p50 * 2, "p99": p50 * 3, "max": p50 * 9}
        if has_latency
        else None,
        histogram=rows if has_latency else None,
        bytes_per_s=rate * 130,
        server=ServerUse(
            cpu_s=4.9,
            cpu_share=0.98,
            rss_bytes_max=int(60e6 + load.connections * 4000),
            pss_bytes_max=int((40e6 if "bolide" in name else 25e6) + load.connections * 3000),
            context_switches=1000,
            processes=2,
        ),
        generator=GeneratorUse(
            cpu_s=4.0,
            cpu_share=0.97 if base > 1.5e5 else 0.6,
            rss_bytes_max=12 * 2**20,
            context_switches=int(rate * 2.5),
        ),
        verdict="generator-bound" if base > 1.5e5 else "server-bound",
        evidence=[f"the server used {0.98:.0%} of a processor"],
    )


def records(*, factor: float = 1.0, rounds: int = 7) -> list[Record]:
    """Make the whole race; Bolide's own rates are multiplied by a factor."""
    found: list[Record] = [machine(), *contestants()]
    for each in studies():
        found.append(each)
        for round_ in range(rounds):
            for load in each.workloads:
                for name, _, interface, _, base in SERVERS:
                    if each.name == "wsgi" and interface not in ("wsgi", "none"):
                        continue
                    rate = base * (factor if name.startswith("bolide") else 1)
                    found.append(trial(each, load, name, rate, round_))
    return found


def write(folder: Path, found: list[Record]) -> Path:
    """Write the records where `bolide race report` looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in found)
    (folder / FILE_NAME).write_bytes(lines)
    return folder
