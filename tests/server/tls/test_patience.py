"""Reading that hangs: nobody waits for it for long."""

from __future__ import annotations

import threading
import time

import pytest

from bolide.server.tls.patience import HangsError, NoThreadError, Patience


def test_returns_and_raises_what_the_work_does() -> None:
    patience = Patience()
    assert patience.run(lambda: 7, 20) == 7
    with pytest.raises(ZeroDivisionError):
        patience.run(lambda: 1 // 0, 20)
    assert patience.run(lambda: None, 20) is None


def test_work_that_hangs_is_left_and_not_attempted_again() -> None:
    patience, released, attempts = Patience(), threading.Event(), []

    def work() -> int:
        attempts.append(threading.current_thread())
        released.wait(20)
        return 1

    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(HangsError):
            patience.run(work, 0.05)
    assert time.monotonic() - began < 5
    assert len(attempts) == 1
    released.set()
    attempts[0].join(20)
    assert patience.run(work, 20) == 1


def test_a_process_that_can_have_no_thread_may_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        for _ in range(2):
            with pytest.raises(NoThreadError):
                patience.run(lambda: 7, 20)
    assert patience.run(lambda: 7, 20) == 7
