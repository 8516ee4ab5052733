"""Refuses a process in which gevent or eventlet has replaced what asyncio and threads need.

With it an event loop waits forever for a thread, and a supervisor for the end of a worker.
"""

from __future__ import annotations

import sys

from bolide.errors import ConfigError


def refuse_patched(what: str) -> None:
    """Refuse to serve in a process that is patched.

    Args:
        what: what is served, in the error's message.

    Raises:
        ConfigError: gevent or eventlet has replaced threads or sockets.
    """
    if call := _patched_by():
        raise ConfigError(
            f"{call} was called for {what}: it replaces the threads and sockets with which Bolide "
            "works; remove the call: Bolide's own threads (--threads) take the place of greenlets"
        )


def _patched_by() -> str:
    """Return the call that has patched this process; "" if none has."""
    gevent = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    if gevent is not None and (gevent("threading") or gevent("socket")):
        return "gevent.monkey.patch_all()"
    eventlet = getattr(sys.modules.get("eventlet.patcher"), "is_monkey_patched", None)
    if eventlet is not None and (eventlet("thread") or eventlet("socket")):
        return "eventlet.monkey_patch()"
    return ""
