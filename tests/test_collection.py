"""`make quick` does not import files of tests that it leaves out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import pytest_ignore_collect

QUICK = "not alone and not slow and not browser and not tools"


@pytest.mark.parametrize(
    ("text", "expression", "is_ignored"),
    [
        ("pytestmark = pytest.mark.slow\n", QUICK, True),
        ("import pytest\n\npytestmark = pytest.mark.tools\n", QUICK, True),
        ("pytestmark = pytest.mark.slow\n", "", None),
        ("pytestmark = pytest.mark.slow\n", "slow", None),
        ("pytestmark = pytest.mark.slow\n", "not alone", None),
        ("pytestmark = pytest.mark.slow\n", "not alone or not slow", None),
        ("pytestmark = pytest.mark.usefixtures('a')\n", QUICK, None),
        ("@pytest.mark.slow\ndef test_one() -> None: ...\n", QUICK, None),
    ],
)
def test_a_file_is_ignored_if_all_of_its_tests_are_left_out(
    text: str, expression: str, is_ignored: bool | None, tmp_path: Path
) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(text)
    config: Any = SimpleNamespace(getoption={"markexpr": expression}.__getitem__)
    assert pytest_ignore_collect(path, config) is is_ignored
