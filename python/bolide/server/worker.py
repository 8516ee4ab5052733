"""A worker process from fork to exit: imports the application, serves it, drains, exits.

It reports over a pipe, in one line of JSON each: ready, or why not; later, if there is a limit,
that it has served enough requests; and that it is leaving, whatever the reason. TERM makes it drain
and exit with 0. So does the end of the supervisor, which closes the lifeline pipe. While the worker
imports the application, TERM ends it at once; a startup that is running is cancelled, and the
shutdown follows if it completes nevertheless. The supervisor handles INT, which a terminal sends to
both.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bolide import _core
from bolide.errors import ConfigError, StartupError
from bolide.interface.wsgi import WsgiApplication
from bolide.server import importer, lifespan, logs, loop
from bolide.server.development import unfit
from bolide.server.logs import logger
from bolide.server.process import channel, ending, lifetime
from bolide.server.redirect import Redirection
from bolide.server.service import Service

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application
    from bolide.server.listener import Listener
    from bolide.server.management.counts import Tally
    from bolide.server.process.heartbeat import Heart
    from bolide.server.tls.certificates import Certificates

EXIT_MISTAKE = 2
EXIT_STARTUP = 3
SHUTDOWN_SHARE = 0.1
"""Share of the graceful time for the application's shutdown, after the requests in flight."""
SHUTDOWN_S_MIN = 0.15
"""Minimum of that, up to half of the graceful time, because closing the loop takes time too."""

ORPHAN_MS = 1000
"""Time beyond the graceful time for a worker to exit by itself, after the supervisor has died."""

LOG_AGAIN_S = 1.0
"""Time for descriptors to become free, before the access log is asked for again."""
FORGET_S = 600
"""How often the keys of old tickets are forgotten. They are of no use after hours."""

is_worker = False
"""Whether this process is a worker; `bolide.run` refuses to start a server inside a server."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker inherits from the supervisor."""

    source: Application | str
    """The application, or the target that names it."""
    settings: Settings
    loop_name: str
    listeners: Sequence[Listener]
    access_log_fd: int | None
    lifeline_fd: int
    """Reading end of a pipe that is never written to, and closes when the supervisor ends."""
    siblings: _core.Siblings | None = None
    """The workers among which connections are distributed; None if there has only been one."""
    seats: int = 0
    """How many of them there may be."""
    certificates: Certificates | None = None
    """None without TLS."""
    redirecting: Sequence[Listener] = ()
    """Where requests without TLS are sent to https."""
    tally: Tally | None = None
    """What becomes of the workers' counts; None without metrics."""
    counts: _core.Counts | None = None
    """Where this worker counts."""
    is_unfit: bool = False
    """Whether the application shows why another one cannot be served."""

    @property
    def needs_channel(self) -> bool:
        """Whether the worker may get something new while it runs."""
        return self.certificates is not None or self.settings.has_log_file


@dataclass(frozen=True, slots=True)
class Place:
    """What one worker has for itself."""

    number: int
    """From 1 on; its successor has the same."""
    seat: int | None
    """Among its siblings; None if there are none."""
    channel_fd: int | None = None
    """Where other certificates, and another access log, arrive."""
    heart: Heart | None = None
    """By which the supervisor notices that it hangs; None if it is not to."""
    is_first: bool = False
    """Whether no worker has served before."""


def run(job: Job, place: Place, report_fd: int) -> int:
    """Serve until a signal; return the exit code."""
    global is_worker
    is_worker = True
    _core.follow(job.lifeline_fd, job.settings.graceful_timeout_ms + ORPHAN_MS)
    try:
        return _run(job, place, report_fd)
    except unfit.UnfitError as error:
        source, settings = (
            unfit.application(error, is_shown=job.settings.debug),
            replace(job.settings, on_worker_start=""),
        )
        shown = replace(job, source=source, settings=settings, is_unfit=True)
        return _run(shown, place, report_fd)


def _run(job: Job, place: Place, report_fd: int) -> int:
    """Serve the application of the job.

    Raises:
        UnfitError: it cannot be served, and this is to be shown to clients.
    """
    try:
        _prepare(job.settings, place.number)
        if isinstance(job.source, str):
            app = importer.load(job.source, job.settings)
            logs.keep_enabled()
        else:
            app = job.source
        tls = job.certificates.current if job.certificates is not None else None
        service = Service(app, job.settings, job.access_log_fd, tls)
        if job.access_log_fd is not None and not job.settings.reload:
            os.close(job.access_log_fd)  # the service has its own, which may be replaced
        if job.siblings is not None and place.seat is not None:
            service.server.join(job.siblings, place.seat)
        if job.counts is not None:
            service.server.measure(job.counts)
        if isinstance(app, WsgiApplication):
            # It runs no coroutine, and on asyncio's loop the reactor waits without the interpreter.
            job = replace(job, loop_name="asyncio")
    except ConfigError as error:
        if _is_shown(error, job, place):
            raise unfit.UnfitError(error) from error
        return _report_failure(report_fd, EXIT_MISTAKE, error)
    return _run_loop(job, service, place, report_fd)


def _run_loop(job: Job, service: Service, place: Place, report_fd: int) -> int:
    """Run the event loop until the worker ends, or the application ends it."""
    with asyncio.Runner(
        loop_factory=lambda: loop.new(job.loop_name, service.server),
        debug=job.settings.debug or None,
    ) as runner:
        try:
            return runner.run(_serve(job, service, place, report_fd))
        except BaseException as error:
            code = ending.of_loop(error)
            _report(report_fd, {"leaving": True})  # also if this was during the startup
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its threads have the time of a drain
    return code


def _prepare(settings: Settings, number: int) -> None:
    """Bind the worker to its processor, and call the application's hook.

    Raises:
        ConfigError: there is no such processor, or the hook failed.
    """
    if cpus := settings.cpu_affinity:
        cpu = cpus[(number - 1) % len(cpus)]
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError:
            text = f"cpu_affinity: this process may not use processor {cpu}"
            raise ConfigError(text) from None
    if settings.on_worker_start:
        importer.call("on_worker_start", settings.on_worker_start, settings, number)
        logs.keep_enabled()


async def _serve(job: Job, service: Service, place: Place, report_fd: int) -> int:
    end = ending.Ending(job.lifeline_fd)
    redirection = Redirection(job.redirecting, job.listeners, job.settings)
    try:
        if not await _is_started(job, service, redirection, end):
            return _cancelled(report_fd)
    except (ConfigError, StartupError, SystemExit, KeyboardInterrupt) as error:
        failure = _startup_failure(error)
        if end.has_begun:
            logger.warning("%s, after the stop has begun", failure)
            return _cancelled(report_fd)
        # From now on TERM ends the process at once.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        if _is_shown(failure, job, place):
            raise unfit.UnfitError(failure) from error
        is_mistake = isinstance(failure, ConfigError)
        return _report_failure(report_fd, EXIT_MISTAKE if is_mistake else EXIT_STARTUP, failure)
    for each in (*job.listeners, *job.redirecting):
        each.close()  # the reactor has its own, which draining closes
    if requests := lifetime.requests_of_one(job.settings):
        reached = partial(_report, report_fd, {"requests": requests})
        service.server.on_requests(requests, reached)
    if place.heart is not None:
        running = asyncio.get_running_loop()
        place.heart.beat(running, job.settings.worker_timeout_ms, service.is_stuck)
    ready = {"ready": True, "connection_bytes_max": service.server.connection_bytes_max}
    ready |= {"unfit": True} if job.is_unfit else {}
    _report(report_fd, ready)
    if place.channel_fd is not None:
        _take_what_is_new(place.channel_fd, job.certificates, service)
    if job.certificates is not None:
        _forget_keys(job.certificates)
    try:
        code = await end.wait()
    finally:  # the loop may be closing already
        _report(report_fd, {"leaving": True})
    within_s = drain_s(job.settings.graceful_timeout_ms / 1000)
    await asyncio.gather(redirection.stop(within_s), service.stop(within_s))
    return _ended(code)


async def _is_started(
    job: Job, service: Service, redirection: Redirection, end: ending.Ending
) -> bool:
    """Run the startup, and listen then unless the end has begun; return whether it completed."""
    own_selector = loop.has_own_selector(job.loop_name)
    if not await end.starts(service.startup(own_selector=own_selector)):
        return False
    logs.keep_enabled()
    # The loop handles a TERM later that has come while a startup kept it from turning. What was
    # accepted until then might be cut off, because the supervisor knows of no requests here.
    if not end.should_exit:
        await redirection.listen(service, job.listeners, lambda: end.should_exit)
    return True


def _cancelled(report_fd: int) -> int:
    """Report that the worker ends without having served, and return the exit code."""
    code = _ended()
    _report(report_fd, {"leaving": True})
    return code


def _ended(code: int = 0) -> int:
    """Ignore TERM, and return the exit code, because the loop is about to close.

    A second TERM meanwhile would make asyncio complain about its closed pipe.
    """
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return code


def _take_what_is_new(channel_fd: int, certificates: Certificates | None, service: Service) -> None:
    """Use the certificates (for new connections) and the access log that the supervisor sends."""

    def arrived() -> None:
        try:
            received = channel.receive(channel_fd)
        except EOFError:
            running.remove_reader(channel_fd)
            return
        if received.certificates is not None and certificates is not None:
            try:
                certificates.take(received.certificates)
                service.server.renew_tls(certificates.current)
            except (MemoryError, ConfigError, ValueError) as error:
                channel.report_unusable(channel_fd, error)
        if received.access_log_fd is not None:
            try:
                service.server.reopen_access_log(received.access_log_fd)
            finally:
                os.close(received.access_log_fd)
        if received.is_log_lost:
            running.call_later(LOG_AGAIN_S, channel.ask_for_log, channel_fd)

    running = asyncio.get_running_loop()
    running.add_reader(channel_fd, arrived)


def _forget_keys(certificates: Certificates) -> None:
    """Forget the keys of old tickets from time to time, also if no client connects."""
    certificates.forget_keys()
    asyncio.get_running_loop().call_later(FORGET_S, _forget_keys, certificates)


def _startup_failure(
    error: ConfigError | StartupError | SystemExit | KeyboardInterrupt,
) -> ConfigError | StartupError:
    if isinstance(error, KeyboardInterrupt):  # raised by the application: a signal does not, here
        return lifespan.startup_error(error)
    if isinstance(error, SystemExit):
        text = f"the application's startup failed: it called sys.exit({error.code!r})"
        return StartupError(text)
    return error


def _is_shown(error: ConfigError | StartupError, job: Job, place: Place) -> bool:
    """Return whether clients get the failure, until a file changes; otherwise the start fails.

    At the first start, a target that does not exist is a mistake in the command.
    """
    is_code = isinstance(error, importer.LoadError | StartupError)
    return job.settings.reload and isinstance(job.source, str) and (is_code or not place.is_first)


def drain_s(graceful_s: float) -> float:
    """Return the part of the graceful time, in seconds, for requests in flight."""
    shutdown_s = max(SHUTDOWN_SHARE * graceful_s, SHUTDOWN_S_MIN)
    return graceful_s - min(shutdown_s, graceful_s / 2)


def _report_failure(report_fd: int, code: int, error: ConfigError | StartupError) -> int:
    details = getattr(error, "details", "")
    _report(report_fd, {"ready": False, "code": code, "message": str(error), "details": details})
    return code


def _report(report_fd: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    with suppress(BrokenPipeError):  # the supervisor has ended, and the lifeline stops the worker
        while data:
            data = data[os.write(report_fd, data) :]
