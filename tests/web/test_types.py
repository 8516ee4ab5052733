"""What a type checker accepts of the micro-framework: what the server accepts, and no more."""

import re
from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ACCEPTED = """\
import functools
import io
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn, ParamSpec, TypedDict, TypeVar
from bolide import App, HTTPError, Request, Response, TestClient, WebSocket

def parts() -> Iterator[bytes]:
    yield b""

async def async_parts() -> AsyncIterator[str]:
    yield ""

class Parts:
    def __iter__(self) -> Iterator[bytes]:
        yield b""

class AsyncParts:
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b""

Response("a"), Response(b"a"), Response(bytearray(b"a")), Response(memoryview(b"a")), Response()
Response(parts()), Response(async_parts()), Response(iter(["a"])), Response(io.BytesIO())
Response(Parts()), Response(AsyncParts())
Response(json={"a": 1}), Response(json=["a"]), Response("a", 404)
changed = Response("a")
changed.body = "b"
changed.body = b"b"

app = App()

@app.error_handler(HTTPError)
@app.error_handler(404, 405)
@app.error_handler("4xx", KeyError)
def handler(request: Request, error: Exception) -> Any:
    return ""

@dataclass
class Note:
    text: str

class Item(TypedDict):
    id: int

class Page(Response):
    pass

P = ParamSpec("P")
R = TypeVar("R")

def traced(function: Callable[P, R]) -> Callable[P, R]:
    return function

def untyped(function: Callable[..., Any]) -> Callable[..., Any]:
    return function

@app.error_handler(KeyError)
async def missing(request: Request, error: KeyError) -> tuple[dict[str, str], int]:
    return {"detail": str(error)}, 404

@app.get("/str")
@app.post("/str", body_bytes_max=1)
@app.route("/other", ["GET", "POST"])
def a_str(request: Request) -> str:
    return ""

@app.get("/optional")
def optional(request: Request) -> bytes | Response | None:
    return None

@app.get("/dict/{id:int}")
async def a_dict(request: Request, id: int, *, more: bool = False) -> dict[int, Note]:
    return {id: Note("")}

@app.get("/typed")
def typed(request: Request) -> Item:
    return {"id": 1}

@app.get("/list")
async def a_list(request: Request) -> list[Note]:
    return []

@app.get("/sequence")
def sequence(request: Request) -> Sequence[int]:
    return [1]

@app.get("/pair")
def pair(request: Request) -> tuple[Item, HTTPStatus] | tuple[str, int]:
    return "", 404

@app.get("/page")
async def page(request: Request) -> Page:
    return Page("")

@app.get("/none")
async def nothing(request: Request) -> None: ...

@app.get("/no")
def no(request: Request) -> NoReturn:
    raise HTTPError(404)

@app.get("/iterator")
def iterator(request: Request) -> Iterator[str]:
    yield ""

@app.get("/iterable")
def iterable(request: Request) -> Iterable[bytes]:
    yield b""

@app.get("/generator")
def generator(request: Request) -> Generator[bytes | str, None, None]:
    yield b""

@app.get("/async-iterator")
async def async_iterator(request: Request) -> AsyncIterator[str]:
    yield ""

@app.get("/returned-iterator")
async def returned_iterator(request: Request) -> AsyncIterator[str]:
    return async_parts()

@app.get("/file")
def file(request: Request) -> io.BufferedReader:
    return open("a", "rb")

@app.get("/anything")
def anything(request: Request) -> Any:
    return Note("")

@app.get("/traced")
@traced
async def is_traced(request: Request) -> str:
    return ""

@app.get("/untyped")
@untyped
def is_untyped(request: Request) -> int:
    return 1

class Handlers:
    def __init__(self, app: App) -> None:
        app.get("/method")(self.method)
        app.add_route("/method", self.method, ["POST"])

    async def method(self, request: Request) -> str:
        return ""

    async def __call__(self, request: Request) -> list[int]:
        return []

app.get("/object")(Handlers(app))
app.get("/lambda")(lambda request: {"a": 1})
app.get("/partial")(functools.partial(a_dict, more=True))
a_str(Request()).upper()

@app.websocket("/chat")
async def chat(websocket: WebSocket) -> None: ...

@app.on_startup
async def start(app: App) -> int:
    return 1

with TestClient(app) as client:
    client.get("/", params={"page": 1}, headers=[("a", "b")], cookies={"a": "b"})
    client.post("/", json={"a": 1}), client.put("/", content=parts()), client.delete("/")
    client.patch("/", content="a", headers=None), client.request("PUT", "/", content=b"a")

def an_int(request: Request) -> int:
    return 1

async def a_note(request: Request) -> Note:
    return Note("")

def chats(websocket: WebSocket) -> None: ...
"""
REFUSED = [
    'Response({"a": 1})',
    'Response(body={"a": "b"})',
    'Response(["a"])',
    'Response({"a", "b"})',
    "Response(1)",
    'app.error_handler("404")',
    "app.error_handler((404, 405))",
    'app.get("/")(an_int)',
    'app.route("/")(a_note)',
    'app.add_route("/", an_int)',
    "app.error_handler(404)(lambda request, error: 404)",
    'app.websocket("/")(chats)',
    'client.get("/", jsn={})',
    'client.post("/", content={"a": 1})',
    'client.get("/", headers={"a": None})',
    'Request().query.get("page", type=int)',
    "import bolide; bolide.jsonify",
]


def test_what_is_refused_when_it_runs_is_refused_when_it_is_checked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ACCEPTED + "\n".join(REFUSED) + "\n")
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    out, errors, _ = api.run([*config, *cache, str(program)])
    assert not errors
    lines = [int(line) for line in re.findall(r"^\S+program\.py:(\d+): error:", out, re.MULTILINE)]
    first = ACCEPTED.count("\n") + 1
    assert lines == list(range(first, first + len(REFUSED))), out
