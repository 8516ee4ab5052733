"""What is measured, and the bars that Bolide must reach."""

from dataclasses import dataclass

HELLO = b"Hello, World!"

# What a browser sends (with Host, which the generator adds, 12 field lines and about 600 bytes).
BROWSER_FIELDS = (
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/142.0.0.0 Safari/537.36",
    ),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Referer", "http://localhost/users/42/posts"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Cache-Control", "max-age=0"),
    ("Cookie", "session=7c1e0b2f9a4d4c6e8f3b5a1d2c4e6f80"),
)


@dataclass(frozen=True)
class Workload:
    """One kind of load; always 100 connections and one generator thread."""

    name: str
    target: str
    depth: int = 1
    persistent: bool = True
    fields: tuple[tuple[str, str], ...] = ()


DEF_24 = Workload("def-24", "/", depth=24)
ASYNC_24 = Workload("async-24", "/async", depth=24)
DEF_1 = Workload("def-1", "/")
ASYNC_1 = Workload("async-1", "/async")
BROWSER = Workload("browser", "/users/42/posts/a-first-post", fields=BROWSER_FIELDS)
CLOSE = Workload("close", "/", persistent=False)

CONNECTIONS = 100
IDLE_CONNECTIONS = 10_000


@dataclass(frozen=True)
class Bar:
    """A contestant that Bolide is held against, and the least ratio to it."""

    contestant: str
    workload: Workload
    ratio: float


@dataclass(frozen=True)
class Row:
    """One line of the table: Bolide under one workload against one or two others."""

    title: str
    workload: Workload
    bars: tuple[Bar, ...]


ROWS = (
    Row(
        "`def`, 24-deep pipelining",
        DEF_24,
        (Bar("ceiling", DEF_24, 0.60), Bar("japronto", DEF_24, 2.0)),
    ),
    Row(
        "`async def`, 24-deep pipelining",
        ASYNC_24,
        (Bar("ceiling", DEF_24, 0.42), Bar("japronto", DEF_24, 1.5)),
    ),
    Row("`def`, keep-alive", DEF_1, (Bar("ceiling", DEF_1, 0.95),)),
    Row("`async def`, keep-alive", ASYNC_1, (Bar("ceiling", DEF_1, 0.90),)),
    Row(
        "browser's request, 2 path parameters, JSON",
        BROWSER,
        (Bar("ceiling", BROWSER, 0.80),),
    ),
    Row(
        "new connection per request",
        CLOSE,
        (Bar("ceiling", CLOSE, 0.90), Bar("nginx", CLOSE, 1.0)),
    ),
)

# A group's trials follow each other, in shuffled order: a ratio compares neighbours in time.
GROUPS = {
    "deep": (
        ("bolide", DEF_24),
        ("bolide", ASYNC_24),
        ("ceiling", DEF_24),
        ("japronto", DEF_24),
    ),
    "keep-alive": (("bolide", DEF_1), ("bolide", ASYNC_1), ("ceiling", DEF_1)),
    "browser": (("bolide", BROWSER), ("ceiling", BROWSER)),
    "close": (("bolide", CLOSE), ("ceiling", CLOSE), ("nginx", CLOSE)),
}

START_MEMORY_MAX = 30 * 1024 * 1024
IDLE_MEMORY_MAX = 2 * 1024
