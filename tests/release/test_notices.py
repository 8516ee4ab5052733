"""The license texts that a wheel carries: of what is compiled into the core, and only that."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def notices() -> ModuleType:
    """Import release/notices.py, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("notices", ROOT / "release/notices.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_linked_has_its_text(notices: ModuleType, tmp_path: Path) -> None:
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "crates", tmp_path / "crates")
    notices.apply(tmp_path)
    text = (tmp_path / notices.NAME).read_text()
    parts = re.split(r"^([\w-]+) \d\S* \((.+)\)\n=+\n", text, flags=re.MULTILINE)[1:]
    named = set(parts[::3])
    assert {"aws-lc-sys", "libc", "memchr", "pyo3", "pyo3-ffi", "rustix", "rustls"} <= named
    assert not {"proptest", "pyo3-build-config", "pyo3-macros", "serde_derive", "toml"} & named
    assert not [each for each in named if each.startswith("bolide")]
    for name, license_name, content in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if "MIT" in license_name.split(" OR "):
            assert content.count("Permission is hereby granted, free of charge") == 1, name
        else:
            assert len(content) > 500, name
    assert "x509-parser" not in named, "a feature that is off would need it"
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", notices.NAME]
    names = project["license"].split(" AND ")
    assert names == sorted(names)
    assert {"Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Zlib"} <= set(names)


def package(folder: Path, license_name: str) -> dict[str, object]:
    """Return what cargo says of a crate in a folder."""
    return {
        "name": "some",
        "version": "1.0",
        "license": license_name,
        "manifest_path": str(folder / "Cargo.toml"),
    }


@pytest.mark.parametrize(
    ("license_name", "expected"),
    [("MIT OR Apache-2.0", ["m"]), ("MIT/Apache-2.0", ["m"]), ("MIT AND Apache-2.0", ["a", "m"])],
)
def test_the_text_is_that_of_mit_where_it_is_offered(
    notices: ModuleType, tmp_path: Path, license_name: str, expected: list[str]
) -> None:
    (tmp_path / "LICENSE-APACHE").write_text("a\n")
    (tmp_path / "LICENSE-MIT").write_text("m\n")
    lines = notices.notice(package(tmp_path, license_name)).splitlines()
    assert lines[0] == f"some 1.0 ({license_name})"
    assert [each for each in lines[2:] if each] == expected


def test_a_crate_without_a_text_is_an_error(notices: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="some: no license text"):
        notices.notice(package(tmp_path, "MIT"))


@pytest.mark.parametrize(
    ("license_name", "expected"),
    [
        ("MIT OR Apache-2.0", {"MIT"}),
        ("MIT/Apache-2.0", {"MIT"}),
        ("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", {"ISC", "Apache-2.0", "OpenSSL"}),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", {"MIT"}),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", {"MIT", "Unicode-3.0"}),
    ],
)
def test_of_several_licenses_the_first_or_mit_applies(
    notices: ModuleType, tmp_path: Path, license_name: str, expected: set[str]
) -> None:
    assert notices.licenses(package(tmp_path, license_name)) == expected


@pytest.mark.parametrize("license_name", ["", "((MIT OR ISC) AND Zlib) OR ISC"])
def test_licenses_that_are_not_understood_are_an_error(
    notices: ModuleType, tmp_path: Path, license_name: str
) -> None:
    with pytest.raises(ValueError, match="some: license"):
        notices.licenses(package(tmp_path, license_name))
