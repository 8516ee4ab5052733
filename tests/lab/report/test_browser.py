"""The page in a real Chromium: charts are drawn, the filter works, nothing is fetched.

A script is added to the page that does what a reader does, and leaves what it saw in the document.
"""

from __future__ import annotations

import json
import re
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bolide.lab.record.schema import Trial
from bolide.lab.report.page import render
from bolide.lab.report.summary import gather
from lab import sample_race
from support.browser import BROWSER

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="chromium is not installed"),
    pytest.mark.timeout(120),
    pytest.mark.browser,
]

SEEN = """<script>
const refused = [];
document.addEventListener("securitypolicyviolation", (event) => refused.push(event.blockedURI));
window.addEventListener("error", (event) => refused.push("error: " + event.message));
</script>"""
REPORT = """<script>
window.addEventListener("load", () => {
  const seen = {};
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const visible = (query) => all(query).filter((each) => each.getClientRects().length);
  const type = (text) => {
    const search = document.getElementById("search");
    search.value = text;
    search.dispatchEvent(new Event("input"));
  };
  const first = all("svg[data-pitch]", all("#study-0 .charts")[1])[0];
  const state = () => ({
    shown: document.getElementById("shown").textContent,
    rows: visible("#study-0 [data-level-of] table")[0]
      .querySelectorAll("tbody tr:not([hidden])").length,
    bars: all("g.row:not([hidden])", first).length,
    lines: all(".wide g.series:not([hidden])", all("#study-3 .charts")[1]).length,
    height: first.viewBox.baseVal.height,
    tops: all("g.row:not([hidden])", first).map((each) => each.getBoundingClientRect().top),
  });
  STEPS
  Promise.resolve(window.steps).then(() => setTimeout(() => {
    seen.refused = refused;
    seen.fetched = performance.getEntriesByType("resource").map((each) => each.name)
      .filter((name) => !name.startsWith("data:"));
    const out = document.createElement("pre");
    out.id = "seen";
    out.textContent = JSON.stringify(seen);
    parent.document.body.append(out);
  }, 200));
});
</script>"""


WIDTH_MIN = 500
"""Of a window: narrower pages are in a frame."""


def drive(
    folder: Path,
    steps: str,
    *,
    width: int = 1200,
    more: str = "",
    scheme: int = 1,
) -> Any:
    """Open the page, do the steps, and return what they put into `seen`.

    Steps that wait leave a promise in `window.steps`.
    """
    assert BROWSER
    records = [
        msgspec.structs.replace(each, command=[*each.command, "--expect-body", "X" * 1024])
        if isinstance(each, Trial)
        else each
        for each in sample_race.records(rounds=2)
    ]
    raw = b"".join(msgspec.json.encode(each) + b"\n" for each in records)
    page = render(gather(records), raw)
    page = page.replace("<body>", f"<body>{SEEN}{more}")
    page = page.replace("</body>", REPORT.replace("STEPS", steps) + "</body>")
    if width < WIDTH_MIN:
        frame = f'<iframe srcdoc="{escape(page)}" style="width:{width}px;height:900px;border:0">'
        page = f"<!doctype html><body>{frame}</iframe></body>"
    (folder / "report.html").write_text(page)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    flags += ["--disable-background-networking", "--no-first-run", "--virtual-time-budget=20000"]
    flags += [f"--blink-settings=preferredColorScheme={scheme}"]
    flags += [f"--window-size={max(width, WIDTH_MIN)},1000"]
    done = subprocess.run(
        [BROWSER, *flags, "--dump-dom", (folder / "report.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


def test_charts_are_drawn_and_nothing_is_fetched(tmp_path: Path) -> None:
    steps = """
    seen.start = state();
    seen.charts = visible("svg.chart").map((each) => each.getBoundingClientRect().height);
    seen.bar = all("rect.bar", first).map((each) => each.getBoundingClientRect().width);
    seen.fill = getComputedStyle(all(".o0 rect.bar", first)[0]).fill;
    seen.sideways = document.documentElement.scrollWidth > innerWidth;
    """
    seen = drive(tmp_path, steps)
    assert seen["refused"] == [] and seen["fetched"] == []
    assert len(seen["charts"]) == 38  # one load has no latency
    assert min(seen["charts"]) > 100
    assert len(seen["bar"]) == 15 and seen["bar"] == sorted(seen["bar"], reverse=True)
    assert seen["start"]["rows"] == seen["start"]["bars"] == 15
    assert seen["start"]["lines"] == 5
    assert seen["fill"] == "rgb(232, 89, 12)"
    assert not seen["sideways"]


def test_the_filter(tmp_path: Path) -> None:
    steps = """
    seen.before = state();
    type("uvi granian"); seen.named = state();
    type("nobody"); seen.nobody = state();
    type("");
    const kind = (name) => all(".kinds button").find((each) => each.dataset.kind === name).click();
    kind("wsgi"); seen.wsgi = state();
    kind("");
    all(".legend button").find((each) => each.dataset.name === "japronto").click();
    seen.without = state();
    """
    seen = drive(tmp_path, steps)
    assert seen["before"]["shown"] == "15 of 15"
    assert (seen["named"]["shown"], seen["named"]["rows"], seen["named"]["bars"]) == (
        "3 of 15",
        3,
        3,
    )
    assert seen["named"]["height"] < seen["before"]["height"]
    gaps = [b - a for a, b in zip(seen["named"]["tops"], seen["named"]["tops"][1:], strict=False)]
    assert gaps and max(gaps) - min(gaps) < 1  # rows moved up
    assert (seen["nobody"]["rows"], seen["nobody"]["bars"], seen["nobody"]["lines"]) == (0, 0, 0)
    assert (seen["wsgi"]["shown"], seen["wsgi"]["rows"]) == ("5 of 15", 5)  # and the ceiling
    assert (seen["without"]["shown"], seen["without"]["bars"]) == ("14 of 15", 14)


def test_the_axis_stays_when_the_filter_hides_contestants(tmp_path: Path) -> None:
    steps = """
    const measured = () => ({
      ticks: all("g.tick text", first).map((each) => each.textContent),
      widths: all("rect.bar", first).filter((each) => !each.closest("[hidden]"))
        .map((each) => [each.closest("g.row").dataset.c, each.getAttribute("width")]),
    });
    seen.all = measured();
    type("uvicorn"); seen.one = measured();
    """
    seen = drive(tmp_path, steps)
    assert seen["one"]["ticks"] == seen["all"]["ticks"] == ["0", "20k", "40k"]
    assert len(seen["all"]["widths"]) == 15
    assert [name for name, _ in seen["one"]["widths"]] == ["uvicorn"]
    assert seen["one"]["widths"][0] in seen["all"]["widths"]


def test_sorting_and_levels(tmp_path: Path) -> None:
    steps = """
    const table = visible("#study-0 [data-level-of] table")[0];
    const names = () => [...table.tBodies[0].rows].map((row) => row.dataset.c);
    const head = (text) => all("th", table).find((each) => each.textContent === text);
    head("CPU s/million").click(); seen.down = names();
    head("CPU s/million").click(); seen.up = names();
    head("contestant").click(); seen.name = names();
    seen.tables = visible("#study-3 [data-level-of]").length;
    const choice = all("#study-3 select")[0];
    choice.value = "c10000-wrk"; choice.dispatchEvent(new Event("change"));
    seen.level = visible("#study-3 [data-level-of]").map((each) => each.dataset.level);
    """
    seen = drive(tmp_path, steps)
    assert seen["down"] == seen["up"][::-1]
    assert seen["down"][0] == "gunicorn-gthread"
    assert seen["name"][0] == "aiohttp-app"
    assert seen["tables"] == 1
    assert seen["level"] == ["c10000-wrk"]


def test_more_contestants_than_colours_are_distinct(tmp_path: Path) -> None:
    steps = """
    const look = (each) => {
      const style = getComputedStyle(each);
      return `${style.stroke} ${style.strokeDasharray}`;
    };
    const strokes = (query) => Object.fromEntries(
      all(query).map((each) => [each.closest("[data-c], [data-name]"), look(each)])
        .map(([owner, found]) => [owner.dataset.c || owner.dataset.name, found]));
    seen.filter = strokes(".legend .swatch .stroke");
    seen.lines = strokes("#study-3 figure.full .wide path.stroke:not(.dots, .solid)");
    seen.names = strokes("#study-3 figure.full .wide .name .stroke");
    seen.key = strokes("#study-3 figure.full .key .stroke");
    """
    seen = drive(tmp_path, steps)
    assert len(set(seen["filter"].values())) == len(seen["filter"]) == 15
    assert seen["lines"] == seen["names"] == seen["key"]
    assert seen["lines"].items() <= seen["filter"].items() and len(seen["lines"]) == 5


@pytest.mark.parametrize("scheme", [0, 1])
def test_a_phone_in_both_themes(tmp_path: Path, scheme: int) -> None:
    steps = """
    for (const each of all("details")) each.open = true;
    seen.width = innerWidth;
    seen.page = document.documentElement.scrollWidth;
    seen.room = document.documentElement.clientWidth;
    seen.wide = visible("figure .wide svg").length;
    seen.narrow = visible("figure .narrow svg").length;
    const text = visible("figure .narrow svg text")[0];
    seen.text = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    seen.paper = getComputedStyle(document.body).backgroundColor;
    seen.tables = visible("table").filter((each) => !each.closest(".scroll")).length;
    const SPARE = 2;  // pixels: another machine has another font
    seen.outside = visible("figure .narrow svg").filter((svg) => {
      const { left, right } = svg.getBoundingClientRect();
      return all("text", svg).some((each) => {
        const box = each.getBoundingClientRect();
        return box.width && (box.left < left + SPARE || box.right > right - SPARE);
      });
    }).map((svg) => svg.getAttribute("aria-label"));
    """
    seen = drive(tmp_path, steps, width=360, scheme=scheme)
    assert seen["width"] == 360
    assert seen["page"] <= seen["room"] <= 360
    assert seen["wide"] == 0 and seen["narrow"] == 38
    assert seen["text"] > 10  # pixels
    assert seen["tables"] == 0 and seen["outside"] == []
    assert seen["paper"] == ["rgb(13, 17, 23)", "rgb(255, 255, 255)"][scheme]


def test_a_request_would_be_refused(tmp_path: Path) -> None:
    """The tests above would see one: this page asks for a picture, and may not have it."""
    seen = drive(tmp_path, "", more='<img src="http://127.0.0.1:1/picture.png" alt="">')
    assert seen["refused"] == ["http://127.0.0.1:1/picture.png"]


def test_every_figure_has_its_evidence_one_click_away(tmp_path: Path) -> None:
    steps = """
    const panel = document.getElementById("evidence");
    const settled = () => new Promise((done) => setTimeout(done, 50));
    const read = async () => {
      for (let n = 0; n < 60 && !panel.open; n++) await settled();
      const found = {
        title: panel.querySelector("h2").textContent,
        load: panel.querySelector("p").textContent,
        rounds: [...panel.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
        text: panel.textContent,
        address: location.hash,
      };
      panel.querySelector("button").click();
      for (let n = 0; n < 60 && (panel.open || location.hash); n++) await settled();
      return found;
    };
    const cell = (section, name, place) =>
      [...section.querySelectorAll(`tr[data-c="${name}"]`)].map((row) => row.cells[place])[0];
    const section = document.getElementById("study-1");
    window.steps = (async () => {
      cell(section.querySelector("[data-level-of]"), "japronto", 1).click(); seen.league = await read();
      section.querySelector('figure[data-w="single-wrk"] g.row[data-c="uvicorn"] rect').dispatchEvent(
        new MouseEvent("click", { bubbles: true })); seen.bar = await read();
      cell(document.querySelector("#study-3 details.more table"), "gunicorn-gthread", 15).click(); seen.level = await read();
      all("#study-4 td[data-k]")[1].click(); seen.loop = await read();
      location.hash = "#of=php/kept-ab/bjoern"; seen.link = await read();
      seen.closed = !panel.open && !location.hash;
      const buttons = all("#study-1 tr[data-c] > td:first-child[role=button]");
      buttons[0].dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true })); seen.key = await read();
    })();
    """  # noqa: E501
    seen = drive(tmp_path, steps)
    assert seen["refused"] == [] and seen["fetched"] == []
    key = ("pipelining", "pipelined-wrk", "japronto")
    trials = {
        each.round: each
        for each in sample_race.records(rounds=2)
        if isinstance(each, Trial) and (each.study, each.workload, each.contestant) == key
    }
    league = seen["league"]
    assert (league["title"], league["load"]) == (
        "Japronto",
        "pipelined-wrk: wrk, 100 connections, 24 deep, 5 s",
    )
    assert [row[:2] for row in league["rounds"]] == [
        [str(number), f"{each.requests_per_s:,.0f}"] for number, each in trials.items()
    ]
    assert league["rounds"][0][-1] == "server-bound"
    for said in ("the server used 98% of a processor", "A processor of some kind @ 2.50GHz"):
        assert said in league["text"]
    body = "X" * 24 + "… (1,024 characters)"
    assert f"wrk http://127.0.0.1:8000/ --expect-body {body} · version 4.1.0" in league["text"]
    assert league["address"] == "#of=pipelining/pipelined-wrk/japronto"
    assert seen["bar"]["load"].startswith("single-wrk: ")
    assert seen["bar"]["title"].startswith("uvicorn")
    assert seen["level"]["rounds"][0][1] == "–"  # no rate next to a failure
    assert seen["level"]["rounds"][0][-1] == "timeout: no response within 5 s"
    assert seen["loop"]["load"].startswith("threads100-wrk: ")
    assert (seen["link"]["title"], seen["link"]["load"][:8]) == ("bjoern", "kept-ab:")
    assert (seen["closed"], bool(seen["key"]["title"])) == (True, True), seen
