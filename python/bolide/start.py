"""Two ways to start a server from Python: `run` with processes, `serve` inside a running loop.

The server and asyncio are imported when one of them is called, not when an application is defined.
`bolide.Server`, in `server/embedded.py`, is `serve` as an object.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from bolide.errors import ConfigError


def run(app: Any, *, config: str | None = None, **settings: Any) -> None:
    """Serve an application until a signal stops it.

    `app` is an application object or a target such as "module:app"; with `factory=True`, a function
    that returns the application, or a target that names one. This starts the same supervisor and
    workers as `bolide serve`, and accepts the same options as keywords. With an application object,
    each worker gets a copy of what this process has imported.

    When it returns, every signal has the handler of before again. The programs that stop a server
    may send the same signal twice: a script that does more after `run` handles TERM and INT itself.

    Raises:
        ConfigError: an option is not valid, an address is in use, or a server cannot be started
            here.
        StartupError: the application's startup raised in a worker, or the worker died.
        SystemExit: a second signal interrupted the shutdown; the code is 1.
    """
    import asyncio
    from functools import partial

    from bolide.config.settings import resolve
    from bolide.interface.greenlets import refuse_patched
    from bolide.server import importer, logs, stderr, supervisor, worker

    if worker.is_worker:
        raise ConfigError(
            "bolide.run() was called while a worker imported the application; "
            'put the call under `if __name__ == "__main__":`'
        )
    refuse_patched(app if isinstance(app, str) else "the application")
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError("bolide.run() handles signals, so call it from the main thread")
    if asyncio._get_running_loop() is not None:
        raise ConfigError("an event loop is running here; use `await bolide.serve(app)`")
    options = partial(resolve, settings, config=config)
    resolved = options()
    source = app if isinstance(app, str) else importer.check(app, "the application", resolved)
    stderr.open_missing()
    stderr.install()
    logs.configure(*resolved.logging)
    try:
        code = supervisor.Supervisor(source, resolved, options).run()
    finally:
        stderr.uninstall()
    if code:
        sys.exit(code)


async def serve(app: Any, *, config: str | None = None, **settings: Any) -> None:
    """Serve an application inside the running loop until this is cancelled; then drain and stop.

    This does not start processes, handle signals or configure logging. A second cancellation closes
    what has not finished. To know when and where the server is ready, use `bolide.Server`.

    Raises:
        ConfigError: an option is not valid or belongs to `run`, or an address is in use.
        StartupError: the application's startup raised.
    """
    from bolide.server.embedded import Server

    await Server(app, config=config, **settings).serve()
