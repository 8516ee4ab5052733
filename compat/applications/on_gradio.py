"""A page of Gradio, seen by a browser, and its interface, called without one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from typing import Any

import gradio
from fastapi import FastAPI

with gradio.Blocks(title="A page", analytics_enabled=False) as demo:
    entry = gradio.Textbox(label="Name of the guest")
    shown = gradio.Textbox(label="What is said")
    entry.submit(lambda name: f"Good day, {name}", entry, shown, api_name="greet")

app = gradio.mount_gradio_app(FastAPI(), demo, path="/")


def observe(url: str) -> dict[str, Any]:
    """Call the page's function as its client does, and look at the page in Chromium."""
    import httpx

    seen: dict[str, Any] = {}
    with httpx.Client(base_url=url, timeout=20) as client:
        page = client.get("/")
        seen["page"] = (page.status_code, page.headers["content-type"])
        call = client.post("/gradio_api/call/greet", json={"data": ["Ada"]})
        event = call.json()["event_id"]
        with client.stream("GET", f"/gradio_api/call/greet/{event}") as stream:
            lines = [line for line in stream.iter_lines() if line.startswith("data:")]
        seen["call"] = json.loads(lines[-1].removeprefix("data:"))
    if browser := shutil.which("chromium"):
        with tempfile.TemporaryDirectory() as profile:
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
            options = [f"--user-data-dir={profile}", "--virtual-time-budget=30000", url + "/"]
            dom = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
        for label in ("Name of the guest", "What is said"):
            seen[f"rendered {label!r}"] = re.search(rf">{label}\s*<", dom.stdout) is not None
    return seen
