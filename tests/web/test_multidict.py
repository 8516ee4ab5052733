"""Mappings with several values for a name."""

from typing import Any

import pytest

from bolide.web.multidict import Headers, MultiDict

PAIRS = [("a", "1"), ("b", "2"), ("a", "3")]


def test_a_name_gives_its_first_value() -> None:
    assert MultiDict(PAIRS)["a"] == "1"


def test_getall_gives_every_value_in_order() -> None:
    assert MultiDict(PAIRS).getall("a") == ["1", "3"]
    assert MultiDict(PAIRS).getall("c") == []


def test_multi_items_gives_all_pairs_in_order() -> None:
    assert MultiDict(PAIRS).multi_items() == PAIRS


def test_as_a_mapping_each_name_is_there_once() -> None:
    mapping = MultiDict(PAIRS)
    assert list(mapping) == ["a", "b"]
    assert len(mapping) == 2
    assert dict(mapping) == {"a": "1", "b": "2"}
    assert mapping == {"a": "1", "b": "2"}
    assert mapping.get("c", "none") == "none"


def test_an_absent_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="c"):
        MultiDict(PAIRS)["c"]


def test_it_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        MultiDict(PAIRS)["a"] = "4"  # type: ignore[index]


def test_the_pairs_given_out_are_a_copy() -> None:
    mapping = MultiDict(PAIRS)
    mapping.multi_items().clear()
    assert mapping.multi_items() == PAIRS


def test_repr_shows_the_pairs() -> None:
    assert repr(MultiDict([("a", "1")])) == "MultiDict([('a', '1')])"


def test_field_names_compare_without_case() -> None:
    headers = Headers([("Accept", "a"), ("ACCEPT", "b")])
    assert headers["accept"] == headers["ACCEPT"] == "a"
    assert headers.getall("aCCept") == ["a", "b"]
    assert "Accept" in headers
    assert "Host" not in headers
    assert not headers.__contains__(1)
    assert list(headers) == ["accept"]


def test_an_absent_field_is_a_key_error_with_the_name_as_asked() -> None:
    with pytest.raises(KeyError, match="X-Absent"):
        Headers()["X-Absent"]


@pytest.mark.parametrize("values", [MultiDict([("A", "1"), ("A", "2")]), Headers([("a", "1")])])
def test_get_takes_a_default_and_says_how_a_value_is_converted(values: MultiDict) -> None:
    get: Any = values.get
    assert [get("A"), get("b"), get("b", "c"), get(key="b", default=3)] == ["1", None, "c", 3]
    with pytest.raises(TypeError) as caught:
        get("A", type=int)
    says = 'get takes no type=: convert the value, for example int(request.query["page"])'
    assert str(caught.value) == says
    with pytest.raises(TypeError, match="unexpected keyword argument 'frob'"):
        get("A", frob=int)


@pytest.mark.parametrize("name", ["get_all", "getlist"])
def test_names_of_other_frameworks_get_ours(name: str) -> None:
    for values in (MultiDict(), Headers()):
        assert not hasattr(values, name)
        with pytest.raises(AttributeError) as caught:
            getattr(values, name)
        assert str(caught.value) == f"{type(values).__name__} has no {name}: use getall()"
