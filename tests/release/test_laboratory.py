"""What only a race needs is in a distribution of its own, bolide-lab, of Bolide's version."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from bolide.lab.folders import APPS
from support.server import command

ROOT = Path(__file__).parents[2]
SOURCES = {".go", ".js", ".lock", ".mod", ".php", ".rs", ".sum"}


@pytest.fixture(scope="module")
def laboratory() -> ModuleType:
    """Import release/laboratory.py, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("laboratory", ROOT / "release/laboratory.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files_of(folder: Path) -> set[str]:
    names = subprocess.run(
        ["git", "ls-files", "."], cwd=folder, check=True, capture_output=True, text=True
    )
    return set(names.stdout.split())


def test_who_only_serves_gets_no_source_of_another_language() -> None:
    served = {name for name in files_of(ROOT / "python/bolide") if Path(name).suffix in SOURCES}
    assert {name for name in served if not name.startswith("lab/report/assets/")} == set()
    assert {Path(name).suffix for name in files_of(APPS)} >= SOURCES


def test_the_wheel_has_all_applications_and_is_the_same_each_time(
    laboratory: ModuleType, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    wheel, again = (laboratory.build(ROOT, tmp_path / name) for name in ("one", "two"))
    assert re.fullmatch(r"bolide_lab-[\d.]+-py3-none-any\.whl", wheel.name)
    assert wheel.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("bolide_lab/")}
        [record] = [name for name in archive.namelist() if name.endswith("/RECORD")]
        rows = archive.read(record).decode().splitlines()
        assert {row.rpartition(",sha256=")[0] for row in rows[:-1]} == {*archive.namelist()} - {
            record
        }
    own = files_of(ROOT / "python/bolide_lab")
    assert names == {f"bolide_lab/{name}" for name in own}


@pytest.mark.slow
def test_it_installs_without_a_network(laboratory: ModuleType, tmp_path: Path) -> None:
    wheel = laboratory.build(ROOT, tmp_path)
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([sys.executable, *words, tmp_path / "site", wheel], check=True)
    assert (tmp_path / "site/bolide_lab/apps/rust_hyper/src/main.rs").is_file()
    assert (tmp_path / "site/bolide_lab/apps/index.php").is_file()


def test_the_extra_requires_this_version(laboratory: ModuleType, tmp_path: Path) -> None:
    for name in ("Cargo.toml", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    text = (tmp_path / "Cargo.toml").read_text()
    (tmp_path / "Cargo.toml").write_text(text.replace('version = "0.1.0"', 'version = "0.1.1"', 1))
    with pytest.raises(ValueError, match=r"does not require bolide-lab==0\.1\.1"):
        laboratory.build(tmp_path, tmp_path)


def test_a_release_candidate_has_a_name_that_pip_accepts(
    laboratory: ModuleType, tmp_path: Path
) -> None:
    for name in ("Cargo.toml", "pyproject.toml"):
        text = (ROOT / name).read_text()
        text = text.replace('version = "0.1.0"', 'version = "0.1.0-rc.1"', 1)
        (tmp_path / name).write_text(text.replace("bolide-lab==0.1.0", "bolide-lab==0.1.0rc1"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    wheel = laboratory.build(tmp_path, tmp_path)
    assert wheel.name == "bolide_lab-0.1.0rc1-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("bolide_lab-0.1.0rc1.dist-info/METADATA").decode().splitlines()
    assert "Version: 0.1.0rc1" in metadata


def test_a_race_does_not_start_with_the_applications_of_another_version(tmp_path: Path) -> None:
    for name, version in (("bolide", "1.0"), ("bolide_lab", "0.9")):
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        fields = ("Metadata-Version: 2.1", f"Name: {name.replace('_', '-')}", f"Version: {version}")
        (folder / "METADATA").write_text("\n".join(fields))
    env = {"PYTHONPATH": str(tmp_path / "site")}
    code, output, errors = command("race", "list", cwd=tmp_path, env=env)
    assert (code, output) == (2, "")
    wrong = "bolide-lab 0.9 is not of Bolide 1.0; pip install 'bolide[lab]==1.0'"
    assert errors == f"bolide: error: {wrong}\n"
