"""Read-only mappings in which a name can have several values: a query, a header section.

`mapping[name]` is the first value, `getall(name)` returns every value, and `multi_items()` all
pairs in order. Iteration, `len` and `items()` include each name once, as with any mapping.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bolide.web import foreign

__all__ = ["Headers", "MultiDict"]


class MultiDict(Mapping[str, str]):
    """A read-only mapping of names to one or more values, in the order in which they arrived."""

    __slots__ = ("_first", "_pairs")

    _first: dict[str, str]
    _pairs: list[tuple[str, str]]

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = list(pairs)
        first = dict(self._pairs)
        if len(first) != len(self._pairs):  # a name occurs twice: dict() kept its last value
            first = {}
            for name, value in self._pairs:
                first.setdefault(name, value)
        self._first = first

    def __getitem__(self, name: str) -> str:
        """Return the first value of a name.

        Raises:
            KeyError: there is no such name.
        """
        return self._first[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, each once, in the order in which they first arrived."""
        return iter(self._first)

    def __len__(self) -> int:
        """Count the names, each once."""
        return len(self._first)

    if not TYPE_CHECKING:  # a type checker reports a keyword that does not exist

        def get(self, key, default=None, **others):
            """Return the first value of a name, or the default.

            Raises:
                TypeError: there is another keyword.
            """
            if others:
                foreign.refuse_keywords("get", foreign.GET_KEYWORDS, others)
                raise TypeError(f"get() got an unexpected keyword argument {next(iter(others))!r}")
            try:
                return self[key]
            except KeyError:
                return default

    def getall(self, name: str) -> list[str]:
        """Return every value of a name in order; an empty list if there is none."""
        return [value for key, value in self._pairs if key == name]

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all pairs in order, duplicates included."""
        return list(self._pairs)

    def __repr__(self) -> str:
        """Show the pairs in order."""
        return f"{type(self).__name__}({self._pairs!r})"


class Headers(MultiDict):
    """A header section; field names are case-insensitive.

    A field whose value is a list may be spread over several lines (RFC 9110 §5.3): `",
    ".join(headers.getall("accept"))` combines them. Names are stored in lower case, as in HTTP/2
    and in the core.
    """

    __slots__ = ()

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__((name.lower(), value) for name, value in pairs)

    def __getitem__(self, name: str) -> str:
        """Return the first value of a field.

        Raises:
            KeyError: there is no such field line; the key is the name that was passed.
        """
        try:
            return self._first[name.lower()]
        except KeyError:
            raise KeyError(name) from None

    def __contains__(self, name: object) -> bool:
        """Return whether there is a field line of this name."""
        return isinstance(name, str) and name.lower() in self._first

    if not TYPE_CHECKING:  # a type checker reports an assignment

        def __setitem__(self, name, value):
            """Say how a response gets a field, since other frameworks assign one.

            Raises:
                TypeError: always.
            """
            remedy = "response.add_header(name, value) adds one"
            raise TypeError(f"Headers cannot be changed: {remedy}")

    def getall(self, name: str) -> list[str]:
        """Return the value of each field line of this name in order; an empty list if none."""
        return super().getall(name.lower())


foreign.refuse(MultiDict, foreign.MULTIDICT)
foreign.refuse(Headers, foreign.MULTIDICT)
