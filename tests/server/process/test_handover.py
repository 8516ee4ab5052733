"""An upgrade whose processes end, hang and are stopped in any order: somebody always serves."""

from __future__ import annotations

import selectors
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.server.process import handover, takeover, upgrade
from bolide.server.process.handover import NEW, OLD, Event, New, Old

PID = 4321
PATIENCE = upgrade.Patience(100.0, 20.0, "upgrade_timeout_ms=100000")


class Watched(selectors.BaseSelector):
    """A selector that calls nothing by itself."""

    def __init__(self) -> None:
        self.calls: dict[object, Callable[[], None]] = {}

    def register(self, fileobj, events, data=None):  # type: ignore[no-untyped-def]
        self.calls[fileobj] = data
        return selectors.SelectorKey(fileobj, fileobj.fileno(), events, data)

    def unregister(self, fileobj):  # type: ignore[no-untyped-def]
        return self.calls.pop(fileobj)

    def select(self, timeout=None):  # type: ignore[no-untyped-def]
        return []

    def get_map(self):  # type: ignore[no-untyped-def]
        return {}


class Processes:
    """Both processes of one upgrade, without a kernel in between."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_old_alive, self.is_old_hung, self.has_left = True, False, False
        self.is_old_asked_to_stop = False
        self.is_new_alive, self.is_new_hung, self.is_new_stopping = True, False, False
        self.owns, self.is_prepared, self.left_to_do = False, False, frozenset[str]()
        self.code: int | None = None
        self.pid = PID
        self.failures = 0
        self.has_hup = self.pid_file_fails = self.systemd_fails = False
        self.new_failures: list[str] = []
        self.left_with: tuple[bool, bool, bool] | None = None
        ours, self.theirs = self.ends_of_pair = upgrade.pair()
        self.old_selector, self.new_selector = Watched(), Watched()
        actions = upgrade.Actions(self._hand_over, self._waiting, self._leave, self._failed)
        self.old = upgrade.Upgrades(self.old_selector, actions, lambda _: (self, ours))
        self.new: takeover.Takeover | None = None
        assert self.old.start(SimpleNamespace(), PATIENCE)  # type: ignore[arg-type]

    # What the old process knows of the new one, as subprocess.Popen.
    def poll(self) -> int | None:
        return self.code

    def wait(self, _timeout: float) -> int:
        assert self.code is not None, "it has not ended"
        return self.code

    def send_signal(self, number: int) -> None:
        if self.code is None and number in handover.SIGNALS.values():
            assert self.owns, "it would reload before it serves"
            self.left_to_do |= {name for name, each in handover.SIGNALS.items() if each == number}
        elif self.code is None:
            self.ends(-9) if number == signal.SIGKILL else self.asks_new_to_stop()

    def _hand_over(self, pid: int) -> str:
        assert pid == PID
        return "systemd does not respond" if self.systemd_fails else ""

    def _waiting(self) -> list[str]:
        return [handover.RELOAD] if self.has_hup else []

    def _leave(self) -> None:
        assert not self.has_left
        self.has_left = True
        self.left_with = (self.code is None, self.is_prepared, not self.new_failures)

    def _failed(self) -> None:
        self.failures += 1

    # What the new process does.
    def boots(self) -> None:
        if self.can_new_act and self.new is None:
            inherited = SimpleNamespace(socket=self.theirs, pid=1234)
            actions = takeover.Actions(self._prepare, self._own, self._fail)
            self.new = takeover.Takeover(inherited, self.new_selector, actions)  # type: ignore[arg-type]

    def serves(self) -> None:
        if self.can_new_act and self.new is not None and not self.is_new_stopping:
            self.new.serves()

    def _prepare(self) -> str:
        if self.pid_file_fails:
            return "the pid file cannot be written"
        self.is_prepared = True
        return ""

    def _own(self, left_to_do: frozenset[str]) -> None:
        assert not self.owns
        self.owns, self.left_to_do = True, left_to_do

    def _fail(self, why: str) -> None:
        self.new_failures.append(why)
        self.is_new_stopping = True

    @property
    def can_new_act(self) -> bool:
        return self.is_new_alive and not self.is_new_hung

    @property
    def can_old_act(self) -> bool:
        return self.is_old_alive and not self.is_old_hung

    # What happens.
    def old_reads(self) -> None:
        for call in list(self.old_selector.calls.values()) if self.can_old_act else ():
            call()

    def new_reads(self) -> None:
        for call in list(self.new_selector.calls.values()) if self.can_new_act else ():
            call()

    def old_collects(self) -> None:
        if self.can_old_act:
            self.old.collect()

    def ends(self, code: int = 1) -> None:
        if self.is_new_alive:
            self.is_new_alive, self.code = False, code
            self.new_selector.calls.clear()
            self.theirs.close()

    def asks_new_to_stop(self) -> None:
        """Send TERM: a process that hangs handles it later, one without a handler ends."""
        if self.new is None:
            self.ends(-15)
        elif self.is_new_alive:
            self.is_new_stopping = True

    def new_stops(self) -> None:
        if self.can_new_act and self.is_new_stopping and self.new is not None:
            self.new.stop()
            self.ends(0)

    def asks_again(self) -> None:
        if self.can_old_act and self.old.pid is not None:
            assert not self.old.start(SimpleNamespace(), PATIENCE)  # type: ignore[arg-type]

    def asks_old_to_stop(self) -> None:
        if self.can_old_act and not self.has_left:
            self.is_old_asked_to_stop = True
            self.old.stop(signal.SIGTERM)

    def old_ends(self) -> None:
        if self.is_old_alive:
            self.is_old_alive = False
            self.ends_of_pair[0].close()
            self.old_selector.calls.clear()

    def passes(self, seconds: float) -> None:
        self.now += seconds
        if self.can_old_act:
            self.old.do_what_is_due(self.now)
        if self.can_new_act and self.new is not None:
            self.new.do_what_is_due(self.now)

    def settles(self) -> None:
        for _ in range(40):
            self.new_stops()
            self.old_reads()
            self.new_reads()
            self.old_collects()
            self.passes(15.0)
        if self.is_old_asked_to_stop and self.can_old_act:
            self.old.close()
            self.old_collects()


EVENTS: dict[str, Callable[[Processes], object]] = {
    "it starts": Processes.boots,
    "its workers serve": Processes.serves,
    "the old one reads": Processes.old_reads,
    "the new one reads": Processes.new_reads,
    "the old one collects": Processes.old_collects,
    "the new one stops": Processes.new_stops,
    "the new one fails": Processes.ends,
    "the new one hangs": lambda each: setattr(each, "is_new_hung", True),
    "the new one goes on": lambda each: setattr(each, "is_new_hung", False),
    "the old one hangs": lambda each: setattr(each, "is_old_hung", True),
    "the old one goes on": lambda each: setattr(each, "is_old_hung", False),
    "TERM to the new one": Processes.asks_new_to_stop,
    "TERM to the old one": Processes.asks_old_to_stop,
    "KILL to the old one": Processes.old_ends,
    "HUP to the old one": lambda each: setattr(each, "has_hup", True),
    "USR2 to the old one": Processes.asks_again,
    "the pid file cannot be written": lambda each: setattr(each, "pid_file_fails", True),
    "systemd does not respond": lambda each: setattr(each, "systemd_fails", True),
    "a second passes": lambda each: each.passes(1.0),
    "a message is late": lambda each: each.passes(handover.MESSAGE_S + 1),
    "the start is late": lambda each: each.passes(PATIENCE.serves_s + 1),
}
WAY = (
    "it starts",
    "its workers serve",
    "the old one reads",
    "the new one reads",
    "the old one reads",
    "the new one reads",
)
"""What happens if nothing goes wrong."""


@contextmanager
def processes() -> Iterator[Processes]:
    with pytest.MonkeyPatch.context() as patched:
        made: list[Processes] = []
        clock = SimpleNamespace(monotonic=lambda: made[0].now if made else 0.0)
        patched.setattr(upgrade, "time", clock)
        patched.setattr(takeover, "time", clock)
        patched.setattr(upgrade, "_has_ended", lambda _: made[0].code is not None)
        made.append(Processes())
        try:
            yield made[0]
        finally:
            for end in made[0].ends_of_pair:
                end.close()


def check(each: Processes) -> None:
    """Check what holds at every moment."""
    if each.left_with is not None:
        assert each.left_with == (True, True, True), "it has left to one that could not serve"
    if each.owns and each.can_old_act:
        assert each.has_left or each.is_prepared
    assert each.failures <= 1
    assert not (each.failures and each.has_left)


def check_end(each: Processes) -> None:
    """Check that one serves, or that it was asked for that none does."""
    goes_on = each.is_old_alive and not each.has_left and not each.is_old_asked_to_stop
    if goes_on and not each.is_old_hung:
        assert not each.is_new_alive, "two of them would serve"
        assert each.failures == 1
        assert each.old.pid is None, "it could not be upgraded again"
    if each.is_old_asked_to_stop and each.can_old_act:
        assert not each.is_new_alive, "it would keep the sockets"
    if each.has_left and each.can_new_act:
        assert each.owns, "nobody would own the sockets"
        if each.left_with and each.has_hup and each.left_to_do == frozenset():
            pytest.fail("a reload was lost")
    if not each.is_old_alive and each.can_new_act and not each.is_old_asked_to_stop:
        started = each.new is not None and not each.is_new_stopping
        assert not started or each.owns or not each.new_selector.calls, "nobody would serve"


def run(names: list[str] | tuple[str, ...]) -> Processes:
    with processes() as each:
        for name in names:
            # A reload that is asked for after it has left is refused, not lost.
            if name != "HUP to the old one" or not each.has_left:
                EVENTS[name](each)
            check(each)
        each.settles()
        check(each)
        check_end(each)
        return each


def test_nothing_goes_wrong() -> None:
    each = run(WAY)
    assert (each.has_left, each.owns, each.failures, each.new_failures) == (True, True, 0, [])


@pytest.mark.parametrize("step", range(len(WAY) + 1))
@pytest.mark.parametrize("fault", sorted(set(EVENTS) - set(WAY)))
def test_one_fault_at_each_step(fault: str, step: int) -> None:
    run((*WAY[:step], fault, *WAY[step:]))


@settings(max_examples=300)
@given(st.data())
def test_several_faults_in_any_order(data: st.DataObject) -> None:
    names: list[str] = []
    for name in WAY:
        names += data.draw(st.lists(st.sampled_from(sorted(EVENTS)), max_size=3))
        names.append(name)
    run(names)


@pytest.mark.parametrize("step", range(4))
def test_one_that_hangs_is_ended_and_the_old_one_goes_on(step: int) -> None:
    each = run((*WAY[:step], "the new one hangs", *WAY[step:]))
    assert (each.has_left, each.failures, each.code) == (False, 1, -9 if step else -15)


def test_a_pid_file_that_cannot_be_written_leaves_the_old_one() -> None:
    each = run((*WAY[:3], "the pid file cannot be written", *WAY[3:]))
    assert (each.has_left, each.failures, each.code) == (False, 1, 0)
    assert each.new_failures == ["the pid file cannot be written"]


def test_a_systemd_that_cannot_be_notified_leaves_the_old_one() -> None:
    each = run((*WAY[:4], "systemd does not respond", *WAY[4:]))
    assert (each.has_left, each.owns, each.failures, each.code) == (False, False, 1, 0)


def test_a_reload_during_the_upgrade_is_passed_on() -> None:
    assert run((*WAY[:4], "HUP to the old one", *WAY[4:])).left_to_do == {"reload"}


def test_one_serves_if_the_old_one_is_killed() -> None:
    for step in range(2, len(WAY) + 1):
        each = run((*WAY[:step], "KILL to the old one", *WAY[step:]))
        assert each.owns and each.is_new_alive


def test_an_old_process_that_hung_leaves_when_it_goes_on() -> None:
    hung = ("the old one hangs", "a message is late", "the old one goes on")
    each = run((*WAY[:4], *hung, *WAY[4:]))
    assert each.owns and each.has_left and each.is_new_alive
    # The new one has not waited for the message that says what is left to do.
    each = run((*WAY[:4], "HUP to the old one", *hung, *WAY[4:]))
    assert each.has_left and each.left_to_do == {handover.RELOAD}


def test_a_new_process_that_hangs_ends_with_the_old_one() -> None:
    with processes() as each:
        for name in (*WAY[:2], "the new one hangs", "TERM to the old one"):
            EVENTS[name](each)
        assert each.code is None
        each.old.close()
        assert each.code == -9


def test_what_an_old_process_said_before_it_ended_counts() -> None:
    each = run((*WAY[:2], "TERM to the old one", "KILL to the old one", "the new one reads"))
    assert (each.owns, each.code) == (False, 0)


@pytest.mark.parametrize("table", [OLD, NEW])
def test_every_stage_can_be_left(table: dict[tuple[Old | New, Event], Old | New]) -> None:
    last = {New.MAIN, New.FAILED}
    stages = {stage for stage, _ in table} | set(table.values())
    for stage in stages - last:
        assert any(before is stage and after is not stage for (before, _), after in table.items())


@pytest.mark.parametrize("message", [b"x", b"mainly", b"serves?", b"\xff"])
def test_other_messages_mean_nothing(message: bytes) -> None:
    assert handover.event_of(message)[0] is None


def test_a_message_says_what_is_left_to_do() -> None:
    message = handover.main_message(["reopen", "reload"])
    assert len(message) <= handover.MESSAGE_BYTES_MAX
    assert handover.event_of(message) == (Event.MAIN, {"reopen", "reload"})


def test_what_was_sent_before_a_reset_is_read() -> None:
    ours, theirs = upgrade.pair()
    ours.send(handover.YOURS)  # which is never read
    theirs.send(handover.OWNS)
    theirs.close()
    assert [event for event, _ in upgrade.received(ours)] == [Event.OWNS, Event.CLOSED]
    ours.close()


def test_neither_side_waits_for_the_other() -> None:
    ours, theirs = upgrade.pair()
    assert ours.type == socket.SOCK_SEQPACKET
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(handover.YOURS)
    assert not theirs.getblocking()
    assert ours.fileno() >= 0
    for end in (ours, theirs):
        end.close()
