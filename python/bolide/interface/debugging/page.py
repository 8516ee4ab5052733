"""A traceback as a page for browsers, or as text.

Everything that comes from outside is escaped, and the page runs no script, loads nothing and may
not be framed (Content-Security-Policy). Values of variables are not shown: they contain secrets.
"""

from __future__ import annotations

import base64
import hashlib
import html
import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bolide.interface.debugging.disclosure import Shown

TEXT_MAX: Final = 10_000
"""Characters of an exception's text, or of a field's value, that are shown."""
FRAMES_MAX: Final = 60
"""Frames of one exception: half from the start, half from the end."""
CHAIN_MAX: Final = 10
"""Exceptions that led to each other."""
CONTEXT_LINES: Final = 4
"""Lines of source before and after that of a frame."""
OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
LIBRARIES: Final = tuple(
    os.path.join(path, "")
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(name))
)
STYLE: Final = """\
body {font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #222; background: #fff}
h1 {font-size: 1.4rem; color: #a11; overflow-wrap: anywhere; white-space: pre-wrap}
h2 {font-size: 1.1rem; margin-top: 2rem}
pre, td, summary {font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere}
pre {background: #f5f5f5; padding: .5rem; overflow-x: auto}
b.line {display: block; background: #ffe9a8; font-weight: normal}
td {vertical-align: top; padding: .1rem .8rem .1rem 0}
@media (prefers-color-scheme: dark) {body {color: #ddd; background: #181818} h1 {color: #f88}
  pre {background: #262626} b.line {background: #540}}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
FIELDS: Final = (
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""Of each response with a traceback."""
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
NOTE: Final = (
    "Shown because debug is on. Secrets are hidden by their names; do not use it in production."
)


@dataclass(frozen=True, slots=True)
class Page:
    """What is sent with a status of 500."""

    media_type: str
    content: bytes

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields of the response, without its length."""
        return [("Content-Type", self.media_type), *FIELDS]


def of_exception(error: BaseException, request: Shown) -> Page | None:
    """Return the page about an exception; None for a client that must not see it."""
    if not request.is_local:
        return None
    shown = request.masked()
    chain = list(_chain(error))
    if request.wants_html:
        return Page(HTML, _html(chain, shown).encode(errors="replace"))
    return Page(TEXT, _text(chain, shown).encode(errors="replace"))


def of_text(headline: str, details: str, request: Shown) -> Page | None:
    """Return the page about a failure of which only the text is known."""
    if not request.is_local:
        return None
    title, body = visible(headline), visible(details or "", "\n\t")
    if request.wants_html:
        parts = f"<h1>{html.escape(title)}</h1><pre>{html.escape(body)}</pre>"
        return Page(HTML, _document(title, parts).encode(errors="replace"))
    return Page(TEXT, f"{title}\n\n{body}\n{NOTE}\n".encode(errors="replace"))


def visible(text: str, allowed: str = "") -> str:
    """Shorten a text, and escape what could control a terminal or change an order of characters."""
    if len(text) > TEXT_MAX:
        text = f"{text[: TEXT_MAX // 2]} [...] {text[-TEXT_MAX // 2 :]}"
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


@dataclass(frozen=True, slots=True)
class _Raised:
    """One exception of those that led to each other."""

    headline: str
    how: str
    """How it led to the next one; "" for the last."""
    frames: list[traceback.FrameSummary]
    left_out: int


def _chain(error: BaseException) -> Iterator[_Raised]:
    """Yield the exceptions that led to this one, oldest first, and this one."""
    found: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    current: BaseException | None = error
    how = ""
    while current is not None and id(current) not in seen and len(found) < CHAIN_MAX:
        seen.add(id(current))
        found.append((current, how))
        cause, context = current.__cause__, current.__context__
        if cause is not None:
            current, how = cause, "It is the cause of the following exception."
        else:
            current = None if current.__suppress_context__ else context
            how = "While it was handled, the following exception occurred."
    for each, said in reversed(found):
        frames = [f for f in traceback.extract_tb(each.__traceback__) if not _is_ours(f.filename)]
        left_out = max(0, len(frames) - FRAMES_MAX)
        if left_out:
            half = FRAMES_MAX // 2
            frames = frames[:half] + frames[-half:]
        yield _Raised(_headline(each), said, frames, left_out)


def _headline(error: BaseException) -> str:
    try:
        lines = list(traceback.TracebackException(type(error), error, None).format_exception_only())
        text = "".join(lines).rstrip("\n")
    except Exception:
        text = f"{type(error).__qualname__} (its text cannot be shown)"
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions[:CHAIN_MAX]:
            text += f"\n  - {type(each).__qualname__}: {_text_of(each)}"
    return visible(text, "\n\t")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(no text)"


def _is_ours(file: str) -> bool:
    return file.startswith(OURS)


def _is_library(file: str) -> bool:
    return file.startswith(LIBRARIES) or file.startswith("<frozen")


def _source(frame: traceback.FrameSummary) -> list[tuple[int, str]]:
    """Return the lines around that of a frame, with their numbers."""
    number = frame.lineno or 0
    found = [
        (each, linecache.getline(frame.filename, each).rstrip("\n"))
        for each in range(max(1, number - CONTEXT_LINES), number + CONTEXT_LINES + 1)
    ]
    while found and not found[-1][1]:
        found.pop()
    return found


def _text(chain: list[_Raised], request: Shown) -> str:
    lines = [chain[-1].headline, "", f"{visible(request.method)} {visible(request.target)}", ""]
    for raised in chain:
        lines.append("Traceback (most recent call last):")
        for number, frame in enumerate(raised.frames):
            if raised.left_out and number == FRAMES_MAX // 2:
                lines.append(f"  [{raised.left_out} frames are left out]")
            lines.append(
                f'  File "{visible(frame.filename)}", line {frame.lineno}, in {frame.name}'
            )
            if frame.line:
                lines.append(f"    {visible(frame.line)}")
        lines.append(raised.headline)
        lines += ["", raised.how, ""] if raised.how else [""]
    lines += [f"{visible(name)}: {visible(value)}" for name, value in request.fields]
    return "\n".join([*lines, "", NOTE, ""])


def _html(chain: list[_Raised], request: Shown) -> str:
    escape = html.escape
    parts = [f"<h1>{escape(chain[-1].headline)}</h1>"]
    parts.append(
        f"<p><code>{escape(visible(request.method))} {escape(visible(request.target))}</code></p>"
    )
    for raised in chain:
        parts.append(f"<h2>{escape(raised.headline.partition(chr(10))[0])}</h2>")
        for number, frame in enumerate(raised.frames):
            if raised.left_out and number == FRAMES_MAX // 2:
                parts.append(f"<p>{raised.left_out} frames are left out</p>")
            parts.append(_frame(frame))
        if raised.how:
            parts.append(f"<p>{escape(raised.how)}</p>")
    rows = "".join(
        f"<tr><td>{escape(visible(name))}</td><td>{escape(visible(value))}</td></tr>"
        for name, value in request.fields
    )
    parts.append(f"<h2>Request</h2><table>{rows}</table>")
    version = sys.version.split()[0]
    parts.append(
        f"<p>Client {escape(visible(request.client))}, Python {escape(version)}. {NOTE}</p>"
    )
    return _document(chain[-1].headline.partition("\n")[0], "".join(parts))


def _frame(frame: traceback.FrameSummary) -> str:
    """Return one frame: open if it is of the application, closed if it is of a library."""
    where = f"{frame.filename}, line {frame.lineno}, in {frame.name}"
    lines = []
    for number, text in _source(frame):
        line = html.escape(f"{number:5} {visible(text, chr(9))}")
        lines.append(f'<b class="line">{line}</b>' if number == frame.lineno else f"{line}\n")
    is_open = "" if _is_library(frame.filename) else " open"
    source = f"<pre>{''.join(lines)}</pre>" if lines else ""
    return f"<details{is_open}><summary>{html.escape(visible(where))}</summary>{source}</details>"


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )
