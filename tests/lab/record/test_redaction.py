"""What a server says of its machine's folders does not get into the results."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from bolide.lab.folders import APPS, LABORATORY, cache_folder
from bolide.lab.record.redaction import redacted
from bolide.lab.record.schema import Failure, Trial


def text_of(text: str, application: Path | None = None) -> str:
    trial = Trial(
        study="s",
        workload="w",
        contestant="c",
        round=0,
        tool="bolide",
        tool_version=None,
        command=[],
        started_at="2026-11-21T14:00:00Z",
        is_valid=False,
        failure=Failure("start", text),
        verdict="failed",
        evidence=[text],
    )
    found = redacted(trial, application)
    assert found.failure is not None
    assert found.evidence == [found.failure.message]
    assert found.failure.class_ == "start"
    return found.failure.message


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home with the cache below it."""
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path / "ann"


def test_control_characters_become_escapes() -> None:
    assert text_of("\x1b]0;T\x07 \u202e a\nb") == r"\x1b]0;T\x07 \u202e a\nb"


def test_folders_get_names(home: Path) -> None:
    trial = f"{tempfile.gettempdir()}/bolide-race-a_x1/httpd.conf"
    assert text_of(f"line 3 of {trial}: wrong") == "line 3 of {folder}/httpd.conf: wrong"
    assert text_of(f'File "{APPS}/wsgi.py", line 1') == 'File "{apps}/wsgi.py", line 1'
    assert text_of(f"{cache_folder()}/bjoern/bin/python") == "{cache}/bjoern/bin/python"
    assert text_of(f"{sys.prefix}/lib/x.so: no") == "{environment}/lib/x.so: no"
    assert text_of(f"{LABORATORY}/guard.py") == "{laboratory}/guard.py"
    assert text_of(f"cannot read {home}/.profile, {home}") == "cannot read ~/.profile, ~"


def test_a_users_application_has_a_name_too(home: Path) -> None:
    folder = home / "shop"
    assert text_of(f'File "{folder}/main.py"', folder) == 'File "{application}/main.py"'
    assert text_of(f'File "{folder}/main.py"') == 'File "~/shop/main.py"'


def test_what_only_begins_alike_stays(home: Path) -> None:
    for text in (f"{home}bel/x", f"{home}-2", "/usr/lib/x.so", "a / b", "GET / HTTP/1.1"):
        assert text_of(text) == text


def test_a_home_that_is_the_root_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert text_of("/usr/lib/x.so: GET / failed") == "/usr/lib/x.so: GET / failed"
