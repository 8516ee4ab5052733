"""The rows of the tables: Bolide under a workload against others, and the bars it must reach."""

from dataclasses import dataclass

from workloads import (
    ASGI,
    ASGI_24,
    ASGI_BROWSER,
    ASGI_SLEEP,
    ASGI_STREAM,
    ASGI_UPLOAD,
    ASYNC_1,
    ASYNC_24,
    BROWSER,
    CLOSE,
    DEF_1,
    DEF_24,
    DJANGO,
    FASTAPI,
    FLASK,
    IO_GATHER,
    IO_HELLO,
    IO_SLEEP,
    IO_STREAM,
    IO_THREAD,
    IO_TURN,
    NUMBERED_24,
    WSGI,
    WSGI_24,
    Workload,
    timed,
)

START_MEMORY_MAX = 30 * 1024 * 1024
IDLE_MEMORY_MAX = 2 * 1024
OWN_SHARE_MAX = 1 / 3
"""Of a peer's time per request outside of the framework, the most that Bolide may take."""

NATIVE_GROUPS = ("deep", "keep-alive", "browser", "close")


@dataclass(frozen=True)
class Bar:
    """A contestant that Bolide is held against, and the least ratio to it; None: only shown."""

    contestant: str
    workload: Workload
    ratio: float | None


@dataclass(frozen=True)
class Row:
    """Bolide under one workload against others."""

    title: str
    group: str
    """A group's trials follow each other, so that a ratio compares neighbours in time."""
    workload: Workload
    bars: tuple[Bar, ...]
    is_per_cpu: bool = False
    """Judged by requests per second of the server's processor time, not of the clock."""


def _row(title: str, workload: Workload, is_per_cpu: bool = False, **ratios: float) -> Row:
    bars = tuple(Bar(name, workload, ratio) for name, ratio in ratios.items())
    return Row(title, workload.name, workload, bars, is_per_cpu)


def _loop_row(title: str, workload: Workload) -> Row:
    bars = (Bar("bolide-uvloop", workload, None),)
    return Row(f"asyncio or uvloop: {title}", "loops", workload, bars, is_per_cpu=True)


ROWS = (
    Row(
        "`def`, 24-deep pipelining",
        "deep",
        DEF_24,
        (Bar("ceiling", DEF_24, 0.60), Bar("japronto", DEF_24, 2.0)),
    ),
    Row(
        "`async def`, 24-deep pipelining",
        "deep",
        ASYNC_24,
        (Bar("ceiling", DEF_24, 0.42), Bar("japronto", DEF_24, 1.5)),
    ),
    Row(
        "`def`, a `Response` with a field that changes, 24-deep pipelining",
        "deep",
        NUMBERED_24,
        (Bar("ceiling", DEF_24, None), Bar("japronto", NUMBERED_24, 1.5)),
    ),
    Row("`def`, keep-alive", "keep-alive", DEF_1, (Bar("ceiling", DEF_1, 0.95),)),
    Row("`async def`, keep-alive", "keep-alive", ASYNC_1, (Bar("ceiling", DEF_1, 0.90),)),
    _row("browser's request, 2 path parameters, JSON", BROWSER, ceiling=0.80),
    _row("new connection per request", CLOSE, ceiling=0.90, nginx=1.0),
    _row("ASGI, keep-alive", ASGI, ceiling=0.75, granian=2.2, uvicorn=3.5, fastpysgi=2.5),
    _row("ASGI, browser's request", ASGI_BROWSER, ceiling=0.70),
    _row("ASGI, 24-deep pipelining", ASGI_24, granian=7.0, uvicorn=12.0),
    _row("ASGI, sleeps 10 ms, 512 connections", ASGI_SLEEP, is_per_cpu=True, uvicorn=1.2),
    _row("ASGI, streams 64 KiB in 16 parts", ASGI_STREAM, granian=1.5, uvicorn=1.5),
    _row("ASGI, reads 1 MiB", ASGI_UPLOAD, granian=1.2, uvicorn=1.2),
    _row("WSGI, keep-alive", WSGI, ceiling=0.80, bjoern=1.1, fastpysgi=1.3, granian=1.8, uwsgi=3.0),
    _row("WSGI, 24-deep pipelining", WSGI_24, granian=6.0, fastpysgi=6.0),
    _row("FastAPI", FASTAPI, uvicorn=1.12, granian=1.12, gunicorn=1.12),
    _row("Flask", FLASK, granian=1.12, gunicorn=1.12, uwsgi=1.12),
    _row("Django", DJANGO, granian=1.12, gunicorn=1.12, uwsgi=1.12),
    _loop_row("hello", IO_HELLO),
    _loop_row("`sleep(0)`", IO_TURN),
    _loop_row("asks another server", IO_STREAM),
    _loop_row("asks it 10 times at once", IO_GATHER),
    _loop_row("`to_thread`", IO_THREAD),
    _loop_row("sleeps 10 ms, 512 connections", IO_SLEEP),
)


def _groups() -> dict[str, tuple[tuple[str, Workload], ...]]:
    """Give the trials of each group: who, under which workload."""
    groups: dict[str, dict[tuple[str, Workload], None]] = {}
    for row in ROWS:
        trials = groups.setdefault(row.group, {})
        trials[("bolide", row.workload)] = None
        if row.workload.is_framework:
            trials[("bolide", timed(row.workload))] = None
        for bar in row.bars:
            trials[(bar.contestant, bar.workload)] = None
            if row.workload.is_framework:
                trials[(bar.contestant, timed(bar.workload))] = None
    return {name: tuple(trials) for name, trials in groups.items()}


GROUPS = _groups()
