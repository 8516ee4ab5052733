"""Applications that measure, inside a server, how long another one takes.

`bench.timed:asgi` and `bench.timed:wsgi` respond with the application that the variable RACE_TIMED
names (MODULE:ATTRIBUTE; RACE_TIMED_INTERFACE says which interface it has), and `/application-time`
with what they have counted in this process since its start. What the application does in tasks and
threads of its own is not seen.

The clock is the thread's processor time: several servers have threads that share the core. It
costs a system call, which is why its cost is measured at the start and reported too: half
of the two readings around a span falls inside of it, half outside. So is what all else here costs
outside of the spans, where it would count as the server's: with an application that does next to
nothing, whose own cost is counted as if it were a server's, so that no server seems to take less
than it does.
"""

import importlib
import json
import os
from collections.abc import Callable, Generator, Iterator
from statistics import median
from time import thread_time_ns
from typing import Any

ASK = "/application-time"
APPLICATION = 1
SERVER = -1
"""The application's span, and a span of the server's within it, which is taken off."""

module, _, attribute = os.environ["RACE_TIMED"].partition(":")
application: Any = getattr(importlib.import_module(module), attribute)


def _reading_ns(readings: int = 1000, batches: int = 25) -> float:
    """Give what a reading of the clock costs."""
    costs = []
    for _ in range(batches):
        begin = thread_time_ns()
        for _ in range(readings):
            thread_time_ns()
        costs.append((thread_time_ns() - begin) / readings)
    return median(costs)


class Meter:
    """What was counted. No assignment contains a call: other threads run only at calls."""

    requests = 0
    application_ns = 0
    spans = 0
    reading_ns = _reading_ns()
    device_ns = 0.0
    """What the measuring itself costs outside of the spans, for each request."""

    def end(self, side: int, begin_ns: int) -> None:
        """Add a span of one side that began then."""
        span_ns = thread_time_ns() - begin_ns
        self.application_ns += side * span_ns
        self.spans += 1

    def report(self) -> bytes:
        """Give the figures as JSON."""
        names = ("requests", "application_ns", "spans", "reading_ns", "device_ns")
        return json.dumps({name: getattr(self, name) for name in names}).encode()

    def outside_ns(self) -> float:
        """Give the time outside of the application that was not spent on readings, negated."""
        return -self.application_ns - self.spans * self.reading_ns


meter = Meter()


class Steps:
    """Calls a function and drives the awaitable that it gives, and counts the time in both."""

    def __init__(self, side: int, function: Callable[..., Any], *arguments: Any):
        self.side = side
        self.function = function
        self.arguments = arguments

    def __await__(self) -> Generator[Any, Any, Any]:
        """Step the awaitable; what it waits for is handed on, with the clock stopped."""
        steps: Any = None
        failure: BaseException | None = None
        while True:
            begin_ns = thread_time_ns()
            try:
                if steps is None:
                    steps = self.function(*self.arguments).__await__()
                awaited = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                return stop.value
            finally:
                meter.end(self.side, begin_ns)
            failure = None
            try:
                yield awaited
            except BaseException as thrown:
                failure = thrown


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the application, or with the figures."""
    if scope["type"] != "http":
        await application(scope, receive, send)
        return
    if scope["path"] == ASK:
        content = meter.report()
        fields = [(b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": content})
        return

    async def timed_receive() -> Any:
        return await Steps(SERVER, receive)

    async def timed_send(message: Any) -> None:
        await Steps(SERVER, send, message)

    await Steps(APPLICATION, application, scope, timed_receive, timed_send)
    meter.requests += 1


class Parts:
    """An application's response; counts the time in its steps and in its end."""

    def __init__(self, response: Any):
        self.response = response
        self.steps = iter(response)

    def __iter__(self) -> Iterator[bytes]:
        """Give itself."""
        return self

    def __next__(self) -> Any:
        """Give the next part."""
        begin_ns = thread_time_ns()
        try:
            return next(self.steps)
        finally:
            meter.end(APPLICATION, begin_ns)

    def close(self) -> None:
        """End the response."""
        begin_ns = thread_time_ns()
        try:
            if hasattr(self.response, "close"):
                self.response.close()
        finally:
            meter.end(APPLICATION, begin_ns)
            meter.requests += 1


def wsgi(environ: Any, start_response: Any) -> Any:
    """Respond with the application, or with the figures."""
    if environ["PATH_INFO"] == ASK:
        content = meter.report()
        start_response("200 OK", [("Content-Length", str(len(content)))])
        return [content]

    def timed_start_response(*arguments: Any) -> Any:
        begin_ns = thread_time_ns()
        try:
            return start_response(*arguments)
        finally:
            meter.end(SERVER, begin_ns)

    begin_ns = thread_time_ns()
    try:
        return Parts(application(environ, timed_start_response))
    finally:
        meter.end(APPLICATION, begin_ns)


class Little:
    """A response of one part, which has an end."""

    def __iter__(self) -> Iterator[bytes]:
        """Give the part."""
        return iter((b"",))

    def close(self) -> None:
        """End the response."""


LITTLE = Little()


def little_wsgi(environ: Any, start_response: Any) -> Any:
    """Respond with next to nothing."""
    start_response("200 OK", ())
    return LITTLE


async def little_asgi(scope: Any, receive: Any, send: Any) -> None:
    """Respond with next to nothing."""
    await send(None)
    await send(None)


def drive_wsgi(call: Any) -> None:
    """Do what a server does."""
    response = call({"PATH_INFO": "/"}, lambda status, fields: None)
    for _ in response:
        pass
    response.close()


class Sent:
    """What a server's `send` gives."""

    def __await__(self) -> Iterator[Any]:
        """Wait for nothing."""
        return iter(())


SENT = Sent()


def drive_asgi(call: Any) -> None:
    """Do what a server does."""
    steps = call({"type": "http", "path": "/"}, None, lambda message: SENT)
    try:
        steps.send(None)
    except StopIteration:
        pass


def _device_ns(
    drive: Any, timed: Any, little: Any, requests: int = 500, batches: int = 25
) -> float:
    """Give what the measuring costs outside of a request's spans; rather less than more."""
    costs = []
    for _ in range(batches):
        begin_ns = thread_time_ns()
        for _ in range(requests):
            drive(little)
        bare_ns = thread_time_ns() - begin_ns
        meter.application_ns = meter.spans = 0
        begin_ns = thread_time_ns()
        for _ in range(requests):
            drive(timed)
        timed_ns = thread_time_ns() - begin_ns
        costs.append((timed_ns + meter.outside_ns() - bare_ns) / requests)
    return max(median(costs), 0.0)


def _calibrate() -> None:
    """Measure what the measuring costs in the interface of the application."""
    global application
    measured = application
    is_asgi = os.environ.get("RACE_TIMED_INTERFACE") == "asgi"
    application = little_asgi if is_asgi else little_wsgi
    parts = (drive_asgi, asgi, little_asgi) if is_asgi else (drive_wsgi, wsgi, little_wsgi)
    device_ns = _device_ns(*parts)
    application = measured
    meter.requests = meter.application_ns = meter.spans = 0
    meter.device_ns = device_ns


_calibrate()
