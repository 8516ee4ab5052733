"""Who may send an agent messages, and whom the coordinator believes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bolide.errors import ConfigError, Error
from bolide.fleet import wire
from bolide.fleet.agent import Agent
from bolide.fleet.limits import Limits
from bolide.fleet.reply import expected
from bolide.fleet.seal import GREETED_MAX, QUESTION, REPLY, SealedLink, Session, secret_in

SECRET, OTHER = b"0123456789abcdef", b"0123456789abcdeX"
HELLO = wire.encode(wire.Hello())
Change = Callable[[bytes], bytes]


class Wire:
    """A link to one agent, on which messages can be read and changed."""

    def __init__(self, secret: bytes | None) -> None:
        self.agent = Agent("a", Limits(), secret=secret)
        self.questions: list[bytes] = []
        self.replies: list[bytes] = []
        self.change_question: Change = lambda octets: octets
        self.change_reply: Change = lambda octets: octets

    def agents(self) -> dict[str, str]:
        return {"tcp://a": "a"}

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = 5.0
    ) -> dict[str, bytes | Exception]:
        found: dict[str, bytes | Exception] = {}
        for address, octets in messages.items():
            self.questions.append(octets)
            self.replies.append(self.sent(self.change_question(octets)))
            found[address] = self.change_reply(self.replies[-1])
        return found

    def sent(self, octets: bytes) -> bytes:
        """Send an agent a message as anybody can who reaches its port."""
        return asyncio.run(self.agent.respond(octets))

    def close(self) -> None: ...


def hello(link: SealedLink | Wire) -> str:
    """Ask an agent who it is; return its name."""
    return expected("a", link.call({"tcp://a": HELLO})["tcp://a"], wire.Description).name


def refusal(octets: bytes) -> str:
    """Return why an agent refuses."""
    found = wire.reply(octets)
    assert isinstance(found, wire.Refusal), found
    return found.reason


def test_both_sides_have_the_secret() -> None:
    carrier = Wire(SECRET)
    link = SealedLink(carrier, SECRET)
    assert [hello(link), hello(link)] == ["a", "a"]
    greetings = [each for each in carrier.questions if b'"greet"' in each]
    assert len(greetings) == 1 and len(carrier.questions) == 3
    assert not any(SECRET in each for each in carrier.questions + carrier.replies)


def test_an_agent_with_a_secret_does_nothing_for_others() -> None:
    carrier = Wire(SECRET)
    demand = "it has a secret; give the same --secret-file to `bolide load`"
    for question in (wire.Hello(), wire.Clock(), wire.Forget(run="r"), wire.Stop(run="r")):
        assert refusal(carrier.sent(wire.encode(question))) == demand
    with pytest.raises(ConfigError, match="agent a: it has a secret; give the same --secret-file"):
        hello(carrier)
    with pytest.raises(ConfigError, match="agent a: it has another secret; give the same"):
        hello(SealedLink(carrier, OTHER))


def test_a_secret_that_only_the_coordinator_has() -> None:
    with pytest.raises(ConfigError, match="agent a: it has no secret; start it with the --secret"):
        hello(SealedLink(Wire(None), SECRET))


def test_a_message_is_accepted_once() -> None:
    carrier = Wire(SECRET)
    link = SealedLink(carrier, SECRET)
    hello(link)
    hello(link)
    for octets in carrier.questions[1:]:
        assert refusal(carrier.sent(octets)) == "a message was sent before"
    assert hello(link) == "a"
    again = Wire(SECRET)  # after a restart
    assert refusal(again.sent(carrier.questions[1])) == "it does not know this session"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"hello"', b'"clock"'),
        (b'"number":2', b'"number":3'),
        (b'"code":"', b'"code":"0'),
    ],
)
def test_a_message_that_was_changed_is_refused(old: bytes, new: bytes) -> None:
    carrier = Wire(SECRET)
    link = SealedLink(carrier, SECRET)
    hello(link)

    def change(octets: bytes) -> bytes:
        assert old in octets
        return octets.replace(old, new, 1)

    carrier.change_question = change
    with pytest.raises(ConfigError, match="a message is not sealed with its secret"):
        hello(link)


def test_only_the_reply_to_this_question_is_believed() -> None:
    carrier = Wire(SECRET)
    link = SealedLink(carrier, SECRET)
    hello(link)
    plain = asyncio.run(Agent("a", Limits()).respond(HELLO))
    unsealed = "agent a: its reply is not sealed with the secret of this fleet"
    forged = [
        lambda octets: carrier.replies[1],  # of an earlier question
        lambda octets: plain,
        lambda octets: octets.replace(b'"name":"a"', b'"name":"b"', 1),
        lambda octets: carrier.questions[-1],
    ]
    for change in forged:
        carrier.change_reply = change
        with pytest.raises(Error, match=unsealed):
            hello(link)


def test_a_code_depends_on_everything() -> None:
    first = Session(SECRET, "c", "a")
    code = first.code(QUESTION, 1, b"m")
    assert first.is_code(code, QUESTION, 1, b"m")
    assert not first.is_code(code, REPLY, 1, b"m")
    assert not first.is_code(code, QUESTION, 2, b"m")
    assert not first.is_code(code, QUESTION, 1, b"n")
    assert not first.is_code("\N{SNOWMAN}", QUESTION, 1, b"m")
    for other in (Session(OTHER, "c", "a"), Session(SECRET, "d", "a"), Session(SECRET, "c", "b")):
        assert not other.is_code(code, QUESTION, 1, b"m")
    assert not Session(SECRET, "ca", "").is_code(code, QUESTION, 1, b"m")


def test_greetings_of_others_end_no_session() -> None:
    carrier = Wire(SECRET)
    link = SealedLink(carrier, SECRET)
    hello(link)
    for _ in range(2 * GREETED_MAX):
        carrier.sent(wire.encode(wire.Greet(nonce="n")))
    assert hello(link) == "a"
    assert len(carrier.agent._guard._greeted) == GREETED_MAX


def test_a_secret_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(ConfigError, match=f"cannot read {file}: No such file .*openssl rand -hex"):
        secret_in(file)
    file.write_bytes(b" 123456789012345\n")
    with pytest.raises(ConfigError, match="has 15 bytes, and a secret has at least 16"):
        secret_in(file)
    file.write_bytes(b"1234567890123456\n")
    assert secret_in(file) == b"1234567890123456"
