"""`Result`: the response that a call of the test client returns."""

import json as json_module
from dataclasses import dataclass
from typing import Any

from bolide.web import foreign
from bolide.web.field import charset_of
from bolide.web.multidict import Headers

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """The response to one call."""

    status: int
    headers: Headers
    content: bytes

    @property
    def text(self) -> str:
        """The content as a str, in the charset of its type or UTF-8."""
        return self.content.decode(charset_of(self.headers.get("content-type", "")) or "utf-8")

    def json(self) -> Any:
        """Return the value of the content, decoded from JSON.

        Raises:
            ValueError: the content is not JSON.
        """
        return json_module.loads(self.content)


foreign.refuse(Result, foreign.RESULT)
