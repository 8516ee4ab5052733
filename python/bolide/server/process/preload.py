"""Imports the application before the workers are forked, so that they share what was imported.

`check` imports it only to find mistakes.

The pages stay shared as long as nobody writes to them. The collector would write to every one, so
`child.start` excludes what exists before a fork from it (gc.freeze).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bolide.server import capacity, importer, logs, loop, worker
from bolide.server.development.watch import Watch
from bolide.server.logs import logger
from bolide.server.process import signals
from bolide.server.process.access_log import check_access_log
from bolide.server.service import Service
from bolide.server.tls import certificates

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application


def preloaded(source: Application | str, settings: Settings) -> Application | str:
    """Return the application, if it is to be imported before the workers start, or its target.

    Raises:
        ConfigError: as `load`.
    """
    return load(source, settings) if settings.preload and isinstance(source, str) else source


def hindrance(job: worker.Job) -> str:
    """Return why a reload does not import the application again; "" if it does."""
    if job.settings.preload:
        return "of preload: USR2 does that"
    if not isinstance(job.source, str):
        return 'it was given as an object: name it, as in bolide.run("main:app"), or restart'
    return ""


def check(target: str, settings: Settings) -> None:
    """Do what can fail before a server and its workers start, except what others would notice.

    No address is bound, no file written, and neither the startup nor a hook runs.

    Raises:
        ConfigError: it has failed; a traceback of the application was written to standard error.
    """
    Watch(settings, target)
    capacity.raise_descriptor_limit(settings)
    loop.choose(settings.loop)
    check_access_log(settings.access_log)
    tls = certificates.Certificates(settings).current if settings.pairs else None
    Service(_imported(target, settings), settings, None, tls)


def load(target: str, settings: Settings) -> Application:
    """Import the application that `target` names, for the workers.

    Raises:
        ConfigError: it cannot be imported; a traceback was written to standard error.
    """
    before = set(threading.enumerate())
    app = _imported(target, settings)
    logs.keep_enabled()
    if started := sorted(each.name for each in set(threading.enumerate()) - before):
        text = (
            "workers do not have the threads that %s started while it was imported (%s); start "
            "them in its startup or in on_worker_start, or leave preload out"
        )
        logger.warning(text, target, ", ".join(started))
    return app


def _imported(target: str, settings: Settings) -> Application:
    worker.is_worker = True  # the module must not start a server while it is imported
    try:
        return importer.load(target, settings)
    except importer.LoadError as error:
        if not signals.is_of_a_stop(error):
            logs.write_details(error.details)
        raise
    finally:
        worker.is_worker = False
