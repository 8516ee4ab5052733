"""The process that watches files, as the supervisor sees it: started, heard and ended."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from importlib.util import find_spec
from os import waitpid  # an application that is imported here may replace it (gevent)
from typing import TYPE_CHECKING

from bolide.errors import ConfigError
from bolide.server import child
from bolide.server.development import watcher
from bolide.server.development.selection import INCLUDED, Selection
from bolide.server.logs import logger

if TYPE_CHECKING:
    from bolide.config.settings import Settings

LIFE_S_MIN = 1.0
"""One that ended sooner is not started again."""
MARGIN_NS = 10_000_000
"""So much earlier may the times of files be: the kernel reads its clock every 1 to 10 ms."""
REPORTED_NS = 3_000_000_000
"""A change is reported within this time. What changed in it may be reported twice."""
WATCHES = "fs.inotify.max_user_watches"


class Watch:
    """Calls back when files have changed, from `open` to `close`."""

    def __init__(self, settings: Settings, source: object) -> None:
        """Watch nothing yet; nothing ever without the option `reload`.

        Raises:
            ConfigError: watchfiles is missing, or the application cannot be imported again.
        """
        self._selection: Selection | None = None
        self._child: child.Child | None = None
        self._since_unix_ns = time.time_ns() - MARGIN_NS
        """Since when a change may not have been reported."""
        if not settings.reload:
            return
        if not isinstance(source, str):
            example = 'bolide.run("main:app", reload=True)'
            raise ConfigError(f"reload imports the application again: name it, as in {example}")
        if find_spec("watchfiles") is None:
            raise ConfigError(
                "reload: watchfiles is not installed; pip install 'bolide[reload]' or leave the "
                "option out"
            )
        self._selection = Selection.of(settings, source)

    @property
    def is_on(self) -> bool:
        """Whether files are watched."""
        return self._selection is not None

    def open(
        self,
        selector: selectors.BaseSelector,
        changed: Callable[[], None],
        close_fds: Iterable[int],
        lifeline_fd: int,
        signals: Collection[int],
    ) -> None:
        """Start the process, which closes those descriptors and ends with the lifeline."""
        if self._selection is None:
            return
        self._selector, self._changed = selector, changed
        work = partial(watcher.run, self._selection, self._since_unix_ns, lifeline_fd)
        self._child = child.start(work, close_fds, signals)
        selector.register(self._child.report_fd, selectors.EVENT_READ, self._heard)

    def fds(self) -> list[int]:
        """Return the descriptors that no worker needs."""
        return [] if self._child is None else [self._child.report_fd]

    def pids(self) -> set[int]:
        """Return the process, if there is one."""
        return set() if self._child is None else {self._child.pid}

    def _heard(self) -> None:
        if self._child is None or not self._child.read_report():
            return
        if self._child.is_silent:
            self._forget_report()
        report = self._child.report
        if report.pop("watching", False) and self._selection is not None:
            patterns = ", ".join((*INCLUDED, *self._selection.include))
            folders = " and ".join(self._selection.folders)
            logger.info("reload: watching %s for changes of %s", folders, patterns)
        if names := report.pop("changed", ""):
            self._since_unix_ns = time.time_ns() - MARGIN_NS - REPORTED_NS
            logger.info("%s changed", names)
            self._changed()

    def has_ended(self) -> bool:
        """Report the end of the process; return whether it is to be started again."""
        if self._child is None or (how := self._child.ended()) is None:
            return False
        self._heard()
        why = self._child.report.get("error", "")
        lived_s = time.monotonic() - self._child.born
        self._release()
        if why:
            remedy = f"name fewer folders with reload_dir, or raise {WATCHES}"
            logger.error("reload: files cannot be watched (%s); %s, and start again", why, remedy)
        elif lived_s < LIFE_S_MIN:
            logger.error("reload: what watches the files ended (%s); start again", how)
        else:
            logger.warning("reload: what watches the files ended (%s); it is started again", how)
            return True
        return False

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill(signal.SIGKILL)
            waitpid(self._child.pid, 0)
            self._release()

    def _release(self) -> None:
        if self._child is not None:
            self._forget_report()
            os.close(self._child.report_fd)
            self._child = None

    def _forget_report(self) -> None:
        if self._child is not None and self._child.report_fd in self._selector.get_map():
            self._selector.unregister(self._child.report_fd)
