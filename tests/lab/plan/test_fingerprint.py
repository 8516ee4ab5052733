"""Hashes of what a race runs."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from bolide.lab.plan import contestant, environments, fingerprint, user_application
from bolide.lab.plan.user_application import UserApplication


def test_a_race_has_hashes_of_bolide_and_of_each_application() -> None:
    found = fingerprint.of_race(None)
    assert {"Bolide's core library", "Bolide's Python files", "{apps}/on_wsgi.py"} <= found.keys()
    assert "{apps}/rust_hyper/src/main.rs" in found
    assert not any("pycache" in name or name.startswith("/") for name in found)
    assert all(re.fullmatch("[0-9a-f]{16}", text) for text in found.values())
    assert fingerprint.of_race(None) == found


def test_a_changed_application_has_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "APPS", tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.js").touch()
    (tmp_path / "x.php").write_text("one")
    before = fingerprint.of_race(None)
    (tmp_path / "x.php").write_text("other")
    after = fingerprint.of_race(None)
    assert {name for name in after if before.get(name) != after[name]} == {"{apps}/x.php"}
    assert "{apps}/node_modules/x.js" not in before


def test_a_contestant_has_hashes_of_its_files_variables_and_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caddy = contestant.own()["caddy-tls"]
    before = fingerprint.of_contestant(caddy)
    assert before.keys() == {"Caddyfile", "its variables", "its packages"}
    fewer = msgspec.structs.replace(
        caddy, entry=msgspec.structs.replace(caddy.entry, environment={})
    )
    assert fingerprint.of_contestant(fewer)["its variables"] != before["its variables"]
    monkeypatch.setattr(environments, "python_of", lambda _: tmp_path / "bin" / "python")
    (tmp_path / "lib/python3.11/site-packages/uvloop-0.21.0.dist-info").mkdir(parents=True)
    assert fingerprint.of_contestant(caddy)["its packages"] != before["its packages"]


def test_what_was_built_for_a_contestant_has_a_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "folder_of", lambda _: tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "server").write_bytes(b"one")
    before = fingerprint.of_contestant(contestant.own()["hyper"])["its program"]
    (tmp_path / "bin" / "server").write_bytes(b"other")
    assert fingerprint.of_contestant(contestant.own()["hyper"])["its program"] != before


def test_another_folder_or_file_of_the_users_application_has_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found_in(name: str, greeting: str) -> UserApplication:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "app.py").write_text("import part\ndef app(environ, start_response): ...")
        (folder / "part.py").write_text(f"TEXT = {greeting!r}")
        (folder / "not_imported.py").touch()
        monkeypatch.chdir(folder)
        return user_application.find("app:app", None)

    first = found_in("a", "Hello")
    assert [path.name for path in first.files] == ["app.py", "part.py"]
    hashes = fingerprint.of_race(first)
    elsewhere = fingerprint.of_race(found_in("b", "Hello"))
    changed = fingerprint.of_race(found_in("a", "Good evening"))
    names = ("the folder of --app", "the application's files")
    assert [hashes[each] == elsewhere[each] for each in names] == [False, True]
    assert [hashes[each] == changed[each] for each in names] == [True, False]
