"""examples/chat.py, and its page with a script that does what its reader does."""

import importlib.util
from pathlib import Path
from typing import Any

from bolide import Request, Response

EXAMPLE = Path(__file__).parents[3] / "examples/chat.py"
spec = importlib.util.spec_from_file_location("chat", EXAMPLE)
assert spec is not None and spec.loader is not None
chat: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chat)
app = chat.app

SCRIPT = """<script>
  const enter = document.getElementById("enter"), say = document.getElementById("say");
  const send = (text) => { say.elements.text.value = text; say.requestSubmit(); };
  const report = () => fetch("/report", { method: "POST", body: JSON.stringify({
    status: status.textContent,
    lines: [...lines.children].map((line) => line.textContent),
  }) });
  new MutationObserver(() => {
    report();
    if (lines.lastChild.textContent === "page: joined") send("hello \\u20ac <b>");
    if (lines.lastChild.textContent === "other: bye") socket.close();
  }).observe(lines, { childList: true });
  new MutationObserver(report).observe(status, { childList: true });
  enter.elements.name.value = "page";
  enter.requestSubmit();
</script>
</html>"""
reports: list[Any] = []


@app.get("/driven")
def driven(request: Request) -> Response:
    page = chat.PAGE.replace("</html>", SCRIPT)
    return Response(text=page, content_type="text/html")


@app.post("/report")
async def report(request: Request) -> None:
    reports.append(await request.json())


@app.get("/reports")
def reported(request: Request) -> list[Any]:
    return reports
