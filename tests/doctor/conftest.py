"""What the tests of the doctor share: a machine that nothing limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
