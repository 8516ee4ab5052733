"""A page of NiceGUI in a browser. Everything that happens on it passes through a WebSocket."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from nicegui import ui

app = FastAPI()


@ui.page("/")
def page() -> None:
    """Count clicks, greet whoever is entered, and count ticks without being asked."""
    counted = {"clicks": 0, "ticks": 0}
    clicks, ticks = ui.label("no clicks"), ui.label("no ticks")
    greeting = ui.label("nobody")

    def click() -> None:
        counted["clicks"] += 1
        clicks.set_text(f"{counted['clicks']} clicks")

    def tick() -> None:
        counted["ticks"] += 1
        ticks.set_text(f"{counted['ticks']} ticks")

    ui.button("Count", on_click=click)
    ui.input("Name", on_change=lambda event: greeting.set_text(f"Good day, {event.value}"))
    ui.timer(0.2, tick)


ui.run_with(app, title="A page")

TEXT = "document.body.innerText"
ENTER = """(() => {
    const input = document.querySelector("input");
    const setter = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    setter.call(input, "Ada \u20ac");
    input.dispatchEvent(new Event("input", {bubbles: true}));
})()"""
CLICK = "document.querySelector('button').click()"


def observe(url: str) -> dict[str, Any]:
    """Use the page."""
    import browser

    if browser.BROWSER is None:
        return {}
    seen: dict[str, Any] = {}
    with browser.opened(url) as page:
        seen["title"] = page.wait("document.querySelector('button') && document.title")
        seen["ticks without a click"] = page.wait(f"{TEXT}.includes('3 ticks')")
        for count in (1, 2):
            page.run(CLICK)
            seen[f"{count} clicks"] = page.wait(f"{TEXT}.includes('{count} clicks')")
        page.run(ENTER)
        seen["what was entered"] = page.wait(f"{TEXT}.includes('Good day, Ada \u20ac')")
        paths = {address.split("?")[0].partition("://")[2] for address in page.websockets}
        seen["WebSockets"] = sorted(path.partition("/")[2] for path in paths)
    return seen
