"""The view of webbench 1.5: what ran, and two lines of results.

`pages/min` counts correct responses only; webbench itself adds the failures.
"""

from __future__ import annotations

from bolide.load.plan import length_s
from bolide.load.views.run_result import RunResult


def page(result: RunResult) -> str:
    """Format the page, without a newline at its end."""
    report, clients = result.report, result.plan["connections"]
    method = result.plan["requests"][0]["method"]
    version = " (using HTTP/1.1)" if result.plan["http_version"] == "1.1" else ""
    seconds = round(length_s(result.plan) or report["seconds"])
    proxy = f", via proxy server {result.options.proxy}" if result.options.proxy else ""
    reload = ", forcing reload" if "Pragma: no-cache" in result.options.headers else ""
    named = "1 client" if clients == 1 else f"{clients} clients"
    pages_per_min = int(report["requests_per_s"] * 60)
    return "\n".join(
        [
            f"Benchmarking: {method} {result.url}{version}",
            f"{named}, running {seconds} sec{proxy}{reload}.",
            "",
            f"Speed={pages_per_min} pages/min, {int(report['bytes_per_s'])} bytes/sec.",
            f"Requests: {report['ok']} susceed, {report['failed']} failed.",
        ]
    )
