"""Texts of others in a report: none is obeyed by a terminal, and none is markup."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from bolide.lab.display import show_results
from bolide.lab.plan import study
from bolide.lab.record.schema import Contestant, Failure, Published, Record, Study, Trial
from bolide.lab.report import csv_export, markdown, writing
from bolide.lab.report.drawing import svg
from bolide.lab.visible import visible
from lab import sample_race

HOSTILE = "\x1b]0;pwned\x07\u202e\x9b<script>alert(1)</script>[a](http://b) *c* `d` |e|\n# f"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e-\u200f\u202a-\u202e\u2066-\u2069]")


def hostile(record: Record) -> Record:
    """Return a record with that text wherever a study or a server can put one."""
    if isinstance(record, Study):
        [first, *_] = record.workloads
        published = [msgspec.structs.replace(each, note=HOSTILE) for each in record.published]
        published += [
            Published(
                contestant="bjoern", workload=first.name, requests_per_s=5.0, does_not_hold=HOSTILE
            )
        ]
        claims = [
            {"text": HOSTILE, "workloads": [first.name], "contestants": ["bjoern"], "at_least": 1.0}
        ]
        changed = {"title": HOSTILE, "document": HOSTILE, "published": tuple(published)}
        return msgspec.convert(
            msgspec.to_builtins(msgspec.structs.replace(record, **changed)) | {"claims": claims},
            Study,
        )
    if isinstance(record, Contestant):
        return msgspec.structs.replace(
            record, title=HOSTILE, settings=HOSTILE, reason=HOSTILE, remarks=(HOSTILE,)
        )
    if isinstance(record, Trial) and record.contestant == "uwsgi":
        return msgspec.structs.replace(
            record,
            is_valid=False,
            failure=Failure("wrong", HOSTILE),
            verdict="failed",
            evidence=[HOSTILE],
        )
    return record


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a race of one study in which every text is hostile, and its report."""
    records = [each for each in sample_race.records(rounds=1) if _is_of_php(each)]
    made = sample_race.write(tmp_path_factory.mktemp("race"), [hostile(each) for each in records])
    writing.write(made, made)
    return made


def _is_of_php(record: Record) -> bool:
    if isinstance(record, Study):
        return record.name == "php"
    return not isinstance(record, Trial) or record.study == "php"


def test_a_terminal_obeys_no_text(folder: Path) -> None:
    out = io.StringIO()
    show_results(writing.read(folder), Console(file=out, width=400, highlight=False))
    assert r"\x1b]0;pwned\x07\u202e\x9b<script>" in out.getvalue()
    assert not CONTROL.search(out.getvalue())


def test_markdown_has_no_markup_of_others(folder: Path) -> None:
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert not CONTROL.search(text) and "pwned" in text
    plain = re.sub(r"``[^`].*?``", "", text)  # commands, as code
    assert "<script" not in plain and "&lt;script>" in plain
    assert "[a](" not in plain and r"\[a\](http://b) \*c\* \`d\` \|e\|\\n# f" in plain
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("16,963 * (3 ms)", "16,963 * (3 ms)"),
        ("wrong_status 2.5", "wrong_status 2.5"),
        ("_a_ **b** ~~c~~", r"\_a\_ \*\*b\*\* \~~c\~~"),
        ("# a", r"\# a"),
        (" > a", r"\> a"),
        ("12. a", r"12\. a"),
        ("* a", r"\* a"),
        ("a & b &amp; c < d", "a & b &amp;amp; c < d"),
        ("![a]", r"!\[a\]"),
    ],
)
def test_markdown_shows_a_text_as_it_is(text: str, shown: str) -> None:
    assert markdown.inline(text) == shown


def test_code_in_markdown_ends_where_it_should() -> None:
    assert markdown.code("a --b") == "`a --b`"
    assert markdown.code("a `b` | c``") == r"``` a `b` \| c`` ```"


def test_pictures_and_the_page_have_no_control_characters(folder: Path) -> None:
    pictures = [*folder.glob("*.svg")]
    assert pictures
    for path in pictures:
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)  # noqa: S314 - our own
        assert not CONTROL.search(text) and "<script" not in text
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert svg.escape("\x1b<\u202e&\ufffe") == r"\x1b&lt;\u202e&amp;\ufffe"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@a", "'@a"),
        ('a,"b"', '"a,""b"""'),
        ("a\r\n", r"a\r\n"),
        ("c100-wrk", "c100-wrk"),
    ],
)
def test_a_field_of_csv_is_a_text(text: str, field: str) -> None:
    assert csv_export.field(text) == field


def test_letters_of_all_languages_are_visible() -> None:
    for text in ("wsgi – 1…2 µs ×", "日本語 ñ\u00a0🚀", ""):
        assert visible(text) == text


def test_a_study_has_its_texts_as_they_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    table = 'contestants = ["a"]\n[[workload]]\nname = "a"\ntools = ["bolide"]\nconnections = 1\n'
    path.write_text('title = "\\u001b]0;T\\u0007"\ncontent = "\\u001b"\n' + table)
    found = study.load(str(path)).study
    assert found.title == r"\x1b]0;T\x07"
    assert found.workloads[0].content == "\x1b"
    path.write_text('"\\u001b" = 1\n' + table)
    with pytest.raises(study.ConfigError) as caught:
        study.load(str(path))
    assert "\x1b" not in str(caught.value) and "x.toml: Object" in str(caught.value)


def test_the_laboratorys_own_studies_are_shown_as_they_are() -> None:
    for path in study.STUDIES.glob("*.toml"):
        found = study.load(path.stem).study
        texts = [found.title, found.document, *(each.text for each in found.claims)]
        texts += [each.does_not_hold + each.note for each in found.published]
        assert not [each for each in texts if "\\" in each]
