"""A server of FastMCP, spoken to by FastMCP's own client."""

from __future__ import annotations

from typing import Any

from fastmcp import Context, FastMCP

server = FastMCP("Numbers")


@server.tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.tool
async def count(until: int, context: Context) -> str:
    """Count, and report the progress of it."""
    for number in range(until):
        await context.report_progress(number + 1, until)
    return f"counted to {until}"


@server.resource("numbers://{name}")
def number(name: str) -> str:
    """Give a number by its name."""
    return {"one": "1", "two": "2"}[name]


app = server.http_app()


def observe(url: str) -> dict[str, Any]:
    """Use the tools and the resource, in sessions one after the other and at the same time."""
    import asyncio

    from fastmcp import Client

    async def session() -> dict[str, Any]:
        progress: list[tuple[float, float | None]] = []

        async def noted(done: float, total: float | None, message: str | None) -> None:
            progress.append((done, total))

        async with Client(f"{url}/mcp") as client:
            tools = sorted(each.name for each in await client.list_tools())
            added = (await client.call_tool("add", {"first": 2, "second": 3})).data
            counted = await client.call_tool("count", {"until": 3}, progress_handler=noted)
            resource = (await client.read_resource("numbers://two"))[0]
            return {
                "tools": tools,
                "add": added,
                "count": counted.data,
                "progress": progress,
                "resource": getattr(resource, "text", None),
            }

    async def many() -> dict[str, Any]:
        first = await session()
        rest = await asyncio.gather(*(session() for _ in range(5)))
        return {"one": first, "five at once are the same": all(each == first for each in rest)}

    return asyncio.run(many())
