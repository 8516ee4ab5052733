"""Runs Django's own tests `servers` and `asgi` with a live server in place of Django's.

`LiveServerTestCase` starts ours where it would start its threaded WSGI server, and the `asgi` tests
talk to it through `communicator.py`. Runs in the folder `tests` of Django's source distribution:
COMPAT_SERVER says which server, COMPAT_RESULT which file gets what came of each test.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import unittest
from pathlib import Path
from typing import Any

import asgiref.testing
import communicator
import django.test.testcases as testcases
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from live import Live

SERVER = os.environ["COMPAT_SERVER"]
outcomes: dict[str, dict[str, str]] = {}


class LiveServerThread(testcases.LiveServerThread):
    """Serves by ours; everything else is Django's."""

    def run(self) -> None:
        """Serve until it is terminated."""
        self._take_connections()
        try:
            if type(self)._create_server is not testcases_create_server:
                return super().run()  # the test brings a server of its own
            handler = self.static_handler(testcases._MediaFilesHandler(WSGIHandler()))
            options = {"host": self.host, "port": self.port, "interface": "wsgi"}
            self.live = Live(self._with_connections(handler), "bolide", **options)
            self.live.start()
            self.port = self.live.port
        except Exception as error:
            self.error = getattr(error.__cause__, "__context__", None) or error
        finally:
            self.is_ready.set()
            connections.close_all()

    def _take_connections(self) -> None:
        for alias, connection in (self.connections_override or {}).items():
            connections[alias] = connection

    def _with_connections(self, handler: Any) -> Any:
        def application(environ: dict[str, Any], start_response: Any) -> Any:
            communicator.requests_sent += 1
            self._take_connections()
            return handler(environ, start_response)

        return application

    def terminate(self) -> None:
        """Stop serving."""
        if hasattr(self, "live"):
            self.live.stop()
        super().terminate()


class Result(unittest.TextTestResult):
    """Remembers the outcome of each test, and whether it sent a request."""

    def startTest(self, test: Any) -> None:  # noqa: N802
        """Begin to count."""
        self._before = communicator.requests_sent
        outcomes[test.id()] = {"outcome": "passed", "reason": ""}
        super().startTest(test)

    def stopTest(self, test: Any) -> None:  # noqa: N802
        """Note the count."""
        outcomes[test.id()]["requests"] = str(communicator.requests_sent - self._before)
        super().stopTest(test)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        """Note why it was left out."""
        outcomes[test.id()] = {"outcome": "skipped", "reason": reason}
        super().addSkip(test, reason)

    def _failed(self, test: Any, error: Any) -> None:
        reason = f"{error[0].__name__}: {error[1]}".strip().splitlines()[0]
        outcomes.setdefault(test.id(), {}).update(outcome="failed", reason=reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        """Note what it raised."""
        self._failed(test, err)
        super().addError(test, err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """Note what it asserted."""
        self._failed(test, err)
        super().addFailure(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """Note what a part of it raised."""
        if err is not None:
            self._failed(test, err)
        super().addSubTest(test, subtest, err)


def main() -> None:
    """Put the live server in place, and run the tests."""
    global testcases_create_server
    testcases_create_server = testcases.LiveServerThread._create_server
    asgiref.testing.ApplicationCommunicator = communicator.LiveCommunicator
    if SERVER == "bolide":  # uvicorn speaks no WSGI: there the tests run as they are
        testcases.LiveServerThread = LiveServerThread
        testcases.LiveServerTestCase.server_thread_class = LiveServerThread
    unittest.TextTestRunner.resultclass = Result
    sys.path.insert(0, os.getcwd())
    sys.argv = ["runtests.py", "--parallel=1", "--settings=test_sqlite", *sys.argv[1:]]
    try:
        runpy.run_path("runtests.py", run_name="__main__")
    finally:
        Path(os.environ["COMPAT_RESULT"]).write_text(json.dumps({"outcomes": outcomes}))


if __name__ == "__main__":
    main()
