"""Sends the parts of an async iterator as a response's content."""

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bolide import _core

__all__ = ["stream_async"]


async def stream_async(stream: "_core.Stream", parts: AsyncIterable[Any]) -> None:
    """Send every part in order, then close the iterator, even after an error.

    Back-pressure: the next part is requested only after the previous one was accepted, and `send`
    waits while the client does not read. Empty parts are skipped, because an empty chunk would end
    the content (RFC 9112 §7.1).

    Raises:
        ClientDisconnected: the client disconnected.
        TypeError: a part is neither bytes nor str.
        Exception: whatever the iterator raises.
    """
    iterator = aiter(parts)
    try:
        async for part in iterator:
            content = _part_bytes(part)
            if content:
                await stream.send(content)
    finally:
        if (close := getattr(iterator, "aclose", None)) is not None:
            await close()


def _part_bytes(part: Any) -> bytes:
    if isinstance(part, bytes):
        return part
    if isinstance(part, str):
        return part.encode()
    raise TypeError(f"a streamed part is bytes or str, not {type(part).__name__}")
