"""What `make wheels` finds wrong with a wheel that it cannot run."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "release"
NAME = "bolide-1.0-cp312-cp312-manylinux_2_17_aarch64.whl"
ELF_AARCH64 = b"\x7fELF".ljust(18, b"\0") + b"\xb7\0PyInit__core"
ELF_X86_64 = b"\x7fELF".ljust(18, b"\0") + b"\x3e\0PyInit__core"
CORE = "bolide/_core.cpython-312-aarch64-linux-gnu.so"
INFO = "bolide-1.0.dist-info"
RIGHT = {
    CORE: ELF_AARCH64,
    "bolide/__init__.py": b"",
    f"{INFO}/METADATA": b"Name: bolide\nProject-URL: Homepage, https://a.example\n\n# Bolide\n",
    f"{INFO}/RECORD": b"",
    f"{INFO}/licenses/LICENSE": b"",
    f"{INFO}/licenses/LICENSES-OF-CRATES.txt": b"",
}
SHOWN: dict[str, Any] = {
    "sym_tag": "manylinux_2_17_aarch64",
    "external_libs": {},
    "unsupported_isa": False,
}


@pytest.fixture
def inspection(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import release/inspection.py, with auditwheel satisfied."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("inspection", FOLDER / "inspection.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "inspection", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "audited", lambda _: SHOWN)
    return module


def wrong(inspection: ModuleType, folder: Path, name: str = NAME, **changed: bytes) -> list[str]:
    """Inspect a wheel that is right but for what is changed, by the last part of its name."""
    wheel = folder / name
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in RIGHT.items():
            archive.writestr(path, changed.pop(Path(path).stem, content))
        for path, content in changed.items():
            archive.writestr(path, content)
    expected = inspection.Expected(
        machine="aarch64",
        libc="gnu",
        policy="manylinux_2_17",
        modules=frozenset({"bolide/__init__.py"}),
        secrets=("/builder/",),
        is_release=True,
    )
    found: list[str] = inspection.inspect(wheel, expected)
    return found


def test_a_right_wheel(inspection: ModuleType, tmp_path: Path) -> None:
    assert wrong(inspection, tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"bolide/tests.py": b""}, "does not belong: bolide/tests.py"),
        ({Path(CORE).stem: ELF_X86_64}, "the core is for x86_64, not for aarch64"),
        ({Path(CORE).stem: ELF_AARCH64[:20]}, "the core does not export PyInit__core"),
        ({Path(CORE).stem: ELF_AARCH64 + b"/builder/lib.rs"}, "the core names /builder/"),
        ({"METADATA": b"Name: bolide\n\n# Bolide\n"}, "no Project-URL"),
        (
            {"METADATA": RIGHT[f"{INFO}/METADATA"] + b"[a](b.md)"},
            "relative link: b.md",
        ),
    ],
)
def test_a_wrong_wheel(
    inspection: ModuleType, tmp_path: Path, changed: dict[str, bytes], expected: str
) -> None:
    assert wrong(inspection, tmp_path, **changed) == [expected]


def test_what_only_a_race_needs(inspection: ModuleType) -> None:
    expected = inspection.Expected(
        machine="aarch64",
        libc="gnu",
        policy="manylinux_2_17",
        modules=frozenset({"bolide/__init__.py", "bolide/lab/index.php"}),
    )
    found = {*RIGHT, "bolide/lab/index.php"}
    wrong_files: list[str] = inspection._wrong_files(found, CORE, INFO, expected)
    assert wrong_files == ["belongs into bolide-lab: bolide/lab/index.php"]


def test_the_name(inspection: ModuleType, tmp_path: Path) -> None:
    other = "bolide-1.0-cp311-cp312-manylinux_2_17_aarch64.whl"
    assert wrong(inspection, tmp_path, other) == [f"unexpected name: {other}"]
    newer = NAME.replace("2_17", "2_34")
    named = ["is for manylinux_2_34_aarch64, not for manylinux_2_17_aarch64"]
    assert wrong(inspection, tmp_path, newer) == named
    for_313 = NAME.replace("312", "313")
    core = CORE.replace("312", "313")
    named = [f"missing: {core}", f"does not belong: {CORE}"]
    assert wrong(inspection, tmp_path, for_313)[:2] == named


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"sym_tag": "manylinux_2_5_aarch64"}, []),
        (
            {"sym_tag": "manylinux_2_34_aarch64"},
            ["its symbols need manylinux_2_34_aarch64, which is not within manylinux_2_17_aarch64"],
        ),
        (
            {"sym_tag": "linux_aarch64"},
            ["its symbols need linux_aarch64, which is not within manylinux_2_17_aarch64"],
        ),
        ({"external_libs": {"libssl.so.3": None}}, ["needs libraries of its own: libssl.so.3"]),
        ({"unsupported_isa": True}, ["needs a newer processor than its platform promises"]),
    ],
)
def test_what_auditwheel_reports(
    inspection: ModuleType, changed: dict[str, Any], expected: list[str]
) -> None:
    assert inspection.wrong_needs({**SHOWN, **changed}, "manylinux_2_17_aarch64") == expected
