"""A WSGI application without a framework: what it does is in the path."""

from __future__ import annotations

import contextvars
import ctypes
import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], object]]

SEEN: dict[str, Any] = {"closed": {}, "errors": {}, "first_steps": 0}
GATES = {str(number): threading.Event() for number in range(16)}
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
KEPT: list[Any] = []
LAST: dict[str, Any] = {}
FILE_CLOSED = threading.Event()
TEXT = [("Content-Type", "text/plain")]


class Closing:
    """An iterable whose iterator is another object, and which counts how often it is closed."""

    def __init__(self, name: str, blocks: Iterable[bytes]) -> None:
        self._name, self._blocks = name, blocks

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the blocks."""
        return iter(self._blocks)

    def close(self) -> None:
        """Count."""
        SEEN["closed"][self._name] = SEEN["closed"].get(self._name, 0) + 1


def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Do what the path says."""
    kind = environ["PATH_INFO"].removeprefix("/").split("/")[0]
    return KINDS.get(kind, echo)(environ, start_response)


def argument(environ: Environ, index: int = 0) -> str:
    """Return a later segment of the path."""
    return str(environ["PATH_INFO"].split("/")[2 + index])


def echo(environ: Environ, start_response: Start) -> list[bytes]:
    shown = {key: value for key, value in environ.items() if isinstance(value, str | bool | tuple)}
    shown["kinds"] = {key: type(value).__name__ for key, value in environ.items()}
    is_real = type(environ) is dict and all(type(key) is str for key in environ)
    shown["is_real"] = is_real
    environ["mark"] = environ["REQUEST_METHOD"] = "changed"
    body = json.dumps(shown).encode()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body]


def peek(environ: Environ, start_response: Start) -> list[bytes]:
    """Report what differs between requests; change nothing, and keep it if asked to."""
    if environ["QUERY_STRING"] == "keep":
        KEPT.append(environ)
    names = ("PATH_INFO", "QUERY_STRING", "RAW_URI", "REQUEST_URI", "REMOTE_PORT", "HTTP_X_A")
    shown = [environ.get(name) for name in names]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([*shown, id(environ)]).encode()]


def again(environ: Environ, start_response: Start) -> list[bytes]:
    """Report which fields have the very value object of the last request: they are remembered."""
    fields = {key: value for key, value in environ.items() if key.startswith("HTTP_")}
    same = sorted(key for key, value in fields.items() if value is LAST.get(key))
    LAST.clear()
    LAST.update(fields)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(same).encode()]


def interned(environ: Environ, start_response: Start) -> list[bytes]:
    """Report which names of fields are interned."""
    keys = [key for key in environ if key.startswith("HTTP_")]
    # A new str of the same characters: interning it gives the one that was interned before.
    same = [key for key in keys if sys.intern("".join([*key])) is key]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(same).encode()]


def seen(environ: Environ, start_response: Start) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({**SEEN, "threads": threading.active_count()}).encode()]


def hello(environ: Environ, start_response: Start) -> list[bytes]:
    headers = [("Content-Type", "text/plain"), ("Content-Length", "13")]
    start_response("200 OK", headers)
    return [b"Hello, world!"]


def status(environ: Environ, start_response: Start) -> list[bytes]:
    start_response(argument(environ).replace("_", " "), TEXT)
    return [b"content"]


def streamed_status(environ: Environ, start_response: Start) -> Iterator[bytes]:
    start_response(argument(environ).replace("_", " "), TEXT)
    yield b"one"
    yield b"two"


def field(environ: Environ, start_response: Start) -> list[bytes]:
    """Send a field between others: /field/NAME/VALUE."""
    own = (argument(environ), argument(environ, 1))
    start_response("200 OK", [*TEXT, own, ("X-After", "1")])
    return [b"content"]


def sized(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Say one length and give another: /sized/SAID/HOW."""
    start_response("200 OK", [("Content-Length", argument(environ))])
    blocks = [b"abc", b"de"]
    return {"list": blocks, "one": [b"abcde"], "iterator": iter(blocks), "none": []}[
        argument(environ, 1)
    ]


def unsized(environ: Environ, start_response: Start) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    how = {"list": [b"abcde"], "tuple": (b"abcde",), "many": [b"abc", b"", b"de"], "none": []}
    return how[argument(environ)]


def blocks(environ: Environ, start_response: Start) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return Closing("blocks", [b"", b"one", b"", b"two", b""])


def empty(environ: Environ, start_response: Start) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return Closing("empty", [b"", b""])


def late_start(environ: Environ, start_response: Start) -> Iterator[bytes]:
    start_response("202 Accepted", TEXT)
    yield b""
    yield b"late"


def gated(environ: Environ, start_response: Start) -> Iterator[bytes]:
    """Yield a block, then wait for a gate before the next."""
    start_response("200 OK", TEXT)
    yield b"before"
    GATES[argument(environ)].wait(20)
    yield b"after"


def wait(environ: Environ, start_response: Start) -> list[bytes]:
    """Wait for a gate."""
    GATES[argument(environ)].wait(20)
    start_response("200 OK", TEXT)
    return [b"waited"]


def pipe(environ: Environ, start_response: Start) -> list[bytes]:
    """Wait until the named pipe of the query is written to and closed."""
    with open(environ["QUERY_STRING"], "rb") as source:
        content = source.read()
    start_response("200 OK", TEXT)
    return [content]


def pipe_later(environ: Environ, start_response: Start) -> Iterator[bytes]:
    """Yield a block, then do the same."""
    yield from ()
    start_response("200 OK", TEXT)
    yield b"before,"
    with open(environ["QUERY_STRING"], "rb") as source:
        yield source.read()


def sized_later(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Yield a block of the announced length; the rest waits for the pipe of the query."""
    how = argument(environ)

    def parts() -> Iterator[bytes]:
        yield b"all"
        with open(environ["QUERY_STRING"], "rb") as source:
            source.read()
        if how == "raises":
            raise RuntimeError("on purpose")
        if how == "more":
            yield b"more"

    start_response("200 OK", [*TEXT, ("Content-Length", "3")])
    return Closing(f"sized-{how}", parts())


def hog(environ: Environ, start_response: Start) -> list[bytes]:
    """Say so, and wait for the named pipe of the query, with the interpreter held all the time."""
    held, interval_s = ctypes.PyDLL(None, use_errno=True), sys.getswitchinterval()
    sys.setswitchinterval(3600)
    held.write(2, b"hogging\n", 8)
    fd = held.open(environ["QUERY_STRING"].encode(), os.O_RDONLY)
    sys.setswitchinterval(interval_s)
    os.close(fd)
    start_response("200 OK", TEXT)
    return [b"hogged"]


def open_gate(environ: Environ, start_response: Start) -> list[bytes]:
    GATES[argument(environ)].set()
    start_response("200 OK", TEXT)
    return [b"open"]


def write(environ: Environ, start_response: Start) -> list[bytes]:
    send = start_response("200 OK", TEXT)
    send(b"one,")
    send(b"")
    send(b"two,")
    return [b"three,", b"four"]


def endless(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Yield blocks until the client is gone: /endless/NAME/write or /endless/NAME."""
    name = argument(environ)
    send = start_response("200 OK", TEXT)
    if environ["PATH_INFO"].endswith("/write"):
        try:
            while True:
                send(b"x" * 65536)
        except OSError as error:
            SEEN["errors"][name] = type(error).__name__
            raise
    return Closing(name, iter(lambda: b"x" * 65536, b""))


def closing(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Return an iterable that is to be closed: /closing/NAME/HOW."""
    name, how = argument(environ), argument(environ, 1)
    if how == "204":
        start_response("204 No Content", [])
        return Closing(name, [b"never sent"])
    if how == "silent":
        return Closing(name, [b"never sent"])
    start_response("200 OK", TEXT)

    def failing() -> Iterator[bytes]:
        if how == "late":
            yield b"block"
        raise RuntimeError(f"on purpose: {name}")

    return Closing(name, [b"all"] if how == "normal" else failing())


def raises(environ: Environ, start_response: Start) -> list[bytes]:
    if argument(environ) == "started":
        start_response("200 OK", TEXT)
    if argument(environ) == "exit":
        raise SystemExit(3)
    if argument(environ) == "interrupt":
        raise KeyboardInterrupt
    raise RuntimeError("on purpose")


def wrong(environ: Environ, start_response: Start) -> Iterable[Any]:
    """Misuse the interface and report what was raised: /wrong/HOW."""
    how = argument(environ)
    calls: dict[str, tuple[Any, ...]] = {
        "status-bytes": (b"200 OK", []),
        "status-short": ("20 OK", []),
        "status-glued": ("200OK", []),
        "status-line": ("200 OK\r\nX: y", []),
        "status-interim": ("103 Early Hints", []),
        "status-int": (200, []),
        "status-control": ("200 O\x7fK", []),
        "status-wide": ("200 \u20ac", []),
        "value-line": ("200 OK", [("X-A", "a\r\nX-B: b")]),
        "value-wide": ("200 OK", [("X-A", "\u20ac")]),
        "value-bytes": ("200 OK", [("X-A", b"a")]),
        "name": ("200 OK", [("X A", "a")]),
        "length": ("200 OK", [("Content-Length", "-1")]),
        "lengths": ("200 OK", [("Content-Length", "1"), ("Content-Length", "2")]),
        "pair": ("200 OK", ["ab"[:1]]),
    }
    try:
        if how == "twice":
            start_response("200 OK", TEXT)
            start_response("200 OK", TEXT)
        start_response(*calls[how])
    except Exception as error:
        message = f"{type(error).__name__}: {error}".encode()
    else:
        message = b"nothing"
    if how != "twice":
        start_response("200 OK", TEXT)
    return [message]


def block_kind(environ: Environ, start_response: Start) -> Iterable[Any]:
    start_response("200 OK", TEXT)
    return {"str": ["text"], "iterator": iter([bytearray(b"x")])}[argument(environ)]


def replaced(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Begin a response and replace it: /replaced/before or /replaced/after."""
    import sys

    send = start_response("200 OK", [("X-First", "1")])
    if argument(environ) == "after":
        send(b"begun")
    try:
        raise ValueError("the first response failed")
    except ValueError:
        start_response("500 Failed", TEXT, sys.exc_info())
    return [b"replaced"]


def cookies(environ: Environ, start_response: Start) -> list[bytes]:
    start_response("200 OK", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-L", "caf\u00e9")])
    return [b""]


def read(environ: Environ, start_response: Start) -> list[bytes]:
    """Read the content: /read/HOW."""
    source, how = environ["wsgi.input"], argument(environ)
    if how == "all":
        parts = [source.read(), source.read(), source.read(5)]
    elif how == "pieces":
        parts = list(iter(lambda: source.read(7), b""))
    elif how == "lines":
        parts = [*source, source.readline()]
    elif how == "short-lines":
        parts = list(iter(lambda: source.readline(3), b""))
    elif how == "readlines":
        parts = source.readlines()
    elif how == "hint":
        parts = [*source.readlines(1), b"|", *source.readlines()]
    else:
        parts = [b"%d" % len(source.read())]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([part.decode("latin-1") for part in parts]).encode()]


def read_fails(environ: Environ, start_response: Start) -> list[bytes]:
    try:
        environ["wsgi.input"].read()
    except OSError as error:
        SEEN["errors"][argument(environ)] = type(error).__name__
        raise
    start_response("200 OK", TEXT)
    return [b"read"]


def unread(environ: Environ, start_response: Start) -> list[bytes]:
    KEPT.append(environ["wsgi.input"])
    start_response("200 OK", TEXT)
    return [b"unread"]


def kept(environ: Environ, start_response: Start) -> list[bytes]:
    """Use what an earlier request left."""
    kept = KEPT.pop()
    try:
        message = kept["RAW_URI"].encode() if isinstance(kept, dict) else kept.read()
    except Exception as error:
        message = f"{type(error).__name__}: {error}".encode()
    start_response("200 OK", TEXT)
    return [message]


def file(environ: Environ, start_response: Start) -> Iterable[bytes]:
    """Send a file: /file/HOW."""
    how = argument(environ)
    stream = FILES.get(how, plain_file)()
    said = SAID.get(how)
    headers = [*TEXT, ("Content-Length", said)] if said else TEXT
    send = start_response("200 OK", headers)
    if how.endswith("after-write"):
        send(b"written,")
    KEPT.append(stream)
    return environ["wsgi.file_wrapper"](stream, 4096)  # type: ignore[no-any-return]


CONTENT = bytes(range(256)) * 1000
SAID = {
    "short-part": "1000",
    "long-part": "200000",
    "small-part": "10",
    "too-long": "300000",
    "small-too-long": "1000",
}


def plain_file(kind: type[io.FileIO] = io.FileIO) -> io.FileIO:
    """Make a real file that is positioned after its first 100 bytes."""
    stream = kind(os.memfd_create("content"), "r+")
    stream.write(CONTENT)
    stream.seek(100)
    return stream


def buffered_file() -> io.BufferedRandom:
    """Make one of which not everything may be in the file yet."""
    stream = io.BufferedRandom(io.FileIO(os.memfd_create("content"), "r+"))
    stream.write(CONTENT)
    stream.seek(100)
    return stream


def small_file(size: int) -> io.BufferedReader:
    """Make one of which that much is left, as `open` gives it."""
    stream = open(os.memfd_create("content"), "rb")
    os.write(stream.fileno(), CONTENT[: 100 + size])
    stream.seek(100)
    return stream


def pipe_file() -> io.BufferedReader:
    """Make one that has no place in a file."""
    source, target = os.pipe()
    os.write(target, b"piped")
    os.close(target)
    return open(source, "rb")


def zipped_file() -> gzip.GzipFile:
    """Make one that reads other bytes than its descriptor does, of which there are enough."""
    fd = os.memfd_create("content")
    os.write(fd, gzip.compress(os.urandom(100_000) + CONTENT))
    stream = gzip.GzipFile(f"/proc/self/fd/{fd}", "rb")
    os.close(fd)
    stream.seek(100_100)
    return stream


class ReportingFile(io.FileIO):
    """A real file that reports when it is closed."""

    def close(self) -> None:
        """Close it and report."""
        super().close()
        FILE_CLOSED.set()


class OnlyRead:
    """A file-like object that can do nothing but read."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self.closed = "cannot be closed"

    def read(self, size: int) -> bytes:
        """Return the next part."""
        return self._parts.pop(0)


FILES: dict[str, Callable[[], Any]] = {
    "buffered": buffered_file,
    "zipped": zipped_file,
    "short-part": lambda: plain_file(ReportingFile),
    "reader": lambda: OnlyRead([b"abc", b"de", b""]),
    "small": lambda: small_file(900),
    "small-part": lambda: small_file(900),
    "small-too-long": lambda: small_file(900),
    "small-after-write": lambda: small_file(900),
    "limit": lambda: small_file(65_536),
    "one": lambda: small_file(1),
    "end": lambda: small_file(0),
    "empty": lambda: open(os.memfd_create("empty"), "rb"),
    "made-up": lambda: open("/proc/self/comm", "rb"),
    "pipe": pipe_file,
    "bytes": lambda: io.BytesIO(b"bytes"),
}


def file_closed(environ: Environ, start_response: Start) -> list[bytes]:
    stream = KEPT.pop()
    if isinstance(stream, ReportingFile):
        assert FILE_CLOSED.wait(10)
        FILE_CLOSED.clear()
    start_response("200 OK", TEXT)
    return [str(stream.closed).encode()]


def errors(environ: Environ, start_response: Start) -> list[bytes]:
    print("a line for the log", file=environ["wsgi.errors"])
    environ["wsgi.errors"].write("flushed")
    environ["wsgi.errors"].flush()
    environ["wsgi.errors"].writelines(["one\n", "two\n"])
    start_response("200 OK", TEXT)
    return [b"ok"]


class Unfinished:
    """Content that leaves a line of `wsgi.errors` unfinished when it is closed."""

    def __init__(self, errors: Any, blocks: list[bytes]) -> None:
        self.errors, self.blocks = errors, blocks

    def __iter__(self) -> Iterator[bytes]:
        self.errors.write(", in the content")
        yield from self.blocks

    def close(self) -> None:
        self.errors.write(", in close()")


def unfinished_lines(environ: Environ, start_response: Start) -> Iterable[bytes]:
    errors, how = environ["wsgi.errors"], environ["QUERY_STRING"]
    errors.write(f"{how}: in the call")
    if how == "raises":
        raise LookupError("after an unfinished line")
    length = [("Content-Length", "2")] if how == "early" else []
    start_response("200 OK", [*TEXT, *length])
    if how == "whole":
        return [b"ok"]
    return Unfinished(errors, [b"ok"] if how == "early" else [b"o", b"k"])


def context(environ: Environ, start_response: Start) -> list[bytes]:
    before = VARIABLE.get()
    VARIABLE.set("left")
    start_response("200 OK", TEXT)
    return [before.encode()]


def running_loop(environ: Environ, start_response: Start) -> Iterator[bytes]:
    """Report which loop runs, in the call and between blocks; run one of its own."""
    import asyncio

    async def own() -> bytes:
        return b"own"

    found = asyncio._get_running_loop()
    start_response("200 OK", TEXT)
    yield repr(found).encode()
    yield repr(asyncio._get_running_loop()).encode() + asyncio.run(own())


def thread(environ: Environ, start_response: Start) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "application/json")])
    own = threading.current_thread()
    is_main = own is threading.main_thread()
    return [json.dumps([own.name, is_main, own.daemon, os.getpid()]).encode()]


KINDS: dict[str, Callable[[Environ, Start], Iterable[Any]]] = {
    name.replace("_", "-"): function
    for name, function in {
        "peek": peek,
        "again": again,
        "interned": interned,
        "seen": seen,
        "hello": hello,
        "status": status,
        "streamed_status": streamed_status,
        "field": field,
        "sized": sized,
        "unsized": unsized,
        "blocks": blocks,
        "empty": empty,
        "late_start": late_start,
        "gated": gated,
        "wait": wait,
        "open": open_gate,
        "pipe": pipe,
        "pipe_later": pipe_later,
        "sized_later": sized_later,
        "hog": hog,
        "write": write,
        "endless": endless,
        "closing": closing,
        "raises": raises,
        "wrong": wrong,
        "block_kind": block_kind,
        "replaced": replaced,
        "cookies": cookies,
        "read": read,
        "read_fails": read_fails,
        "unread": unread,
        "kept": kept,
        "file": file,
        "file_closed": file_closed,
        "errors": errors,
        "unfinished": unfinished_lines,
        "context": context,
        "running_loop": running_loop,
        "thread": thread,
    }.items()
}
