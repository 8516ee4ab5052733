"""Whatever a user types, the result is a plan or one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.errors import ConfigError, Error
from bolide.load import destination, like, plan, stage, threshold
from bolide.load.options import Options
from load.samples import WHERE

pytestmark = pytest.mark.slow

OPTIONS = ("headers", "stages", "method", "cpus", "source_addresses")
WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["-c", "-n", "-t", "-d", "-H", "-k", "-p", "--", "-", "10", "0", "http://h/"]
        ),
        st.text(max_size=8),
    ),
    max_size=6,
)


def build(name: str, text: str) -> object:
    """Build a plan with one option that is any text."""
    several = name in ("headers", "source_addresses")
    given: dict[str, Any] = {name: (text,) if several else text}
    return plan.build(Options(urls=(WHERE.url,), **given), WHERE)


READERS: dict[str, Callable[[str], object]] = {
    "threshold": threshold.read,
    "stages": stage.read,
    "url": lambda text: destination.find((text,)),
    "weighted url": lambda text: destination.find((f"http://h/{text}",)),
    "host": lambda text: destination.find((f"http://{text}/",)),
    **{name: lambda text, name=name: build(name, text) for name in OPTIONS},
}


@pytest.mark.parametrize("reader", READERS)
@given(text=st.text(alphabet=st.characters(codec=None), max_size=30))
def test_text(reader: str, text: str) -> None:
    with mock.patch("socket.create_connection", side_effect=ConnectionRefusedError(111, "refused")):
        try:
            READERS[reader](text)
        except (ConfigError, Error) as error:
            assert "\n" not in str(error) and str(error)


@given(tool=st.sampled_from(["ab", "wrk", "webbench"]), words=WORDS)
def test_command_lines(tool: str, words: list[str]) -> None:
    try:
        like.read(" ".join([tool, *words]))
    except ConfigError as error:
        assert "\n" not in str(error) and str(error)
