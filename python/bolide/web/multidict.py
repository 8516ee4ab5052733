"""Read-only mappings in which a name can have several values: a query, a header section.

`mapping[name]` gives the first value, `getall(name)` every one, `multi_items()` all pairs in their
order. Iteration, `len` and `items()` see each name once, as with any mapping.
"""

from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Headers", "MultiDict"]


class MultiDict(Mapping[str, str]):
    """A read-only mapping of names to one or more values, in the order of their arrival."""

    __slots__ = ("_first", "_pairs")

    _first: dict[str, str]
    _pairs: list[tuple[str, str]]

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = list(pairs)
        first = dict(self._pairs)
        if len(first) != len(self._pairs):  # a name came twice: dict() kept its last value
            first = {}
            for name, value in self._pairs:
                first.setdefault(name, value)
        self._first = first

    def __getitem__(self, name: str) -> str:
        """Give the first value of a name.

        Raises:
            KeyError: there is no such name.
        """
        return self._first[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, each once, in the order of their first arrival."""
        return iter(self._first)

    def __len__(self) -> int:
        """Count the names, each once."""
        return len(self._first)

    def getall(self, name: str) -> list[str]:
        """Give every value of a name in order; an empty list when there is none."""
        return [value for key, value in self._pairs if key == name]

    def multi_items(self) -> list[tuple[str, str]]:
        """Give all pairs in order, duplicates included."""
        return list(self._pairs)

    def __repr__(self) -> str:
        """Show the pairs as they came."""
        return f"{type(self).__name__}({self._pairs!r})"


class Headers(MultiDict):
    """A header section; field names compare without regard to case.

    A field whose value is a list may come in several lines (RFC 9110 §5.3): `",
    ".join(headers.getall("accept"))` combines them. Names are kept in lower case, as HTTP/2 and the
    core have them.
    """

    __slots__ = ()

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__((name.lower(), value) for name, value in pairs)

    def __getitem__(self, name: str) -> str:
        """Give the first value of a field.

        Raises:
            KeyError: there is no such field line; the key is the name as it was asked for.
        """
        try:
            return self._first[name.lower()]
        except KeyError:
            raise KeyError(name) from None

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a field line of this name."""
        return isinstance(name, str) and name.lower() in self._first

    def getall(self, name: str) -> list[str]:
        """Give the value of each field line of this name in order; an empty list for none."""
        return super().getall(name.lower())
