"""The types of values of the options about logs."""

import pytest

from bolide.config.logs import LineFormat, Share


@pytest.mark.parametrize(("given", "share"), [("0.01", 0.01), (1, 1.0), ("0", 0.0), (0.5, 0.5)])
def test_a_share(given: object, share: float) -> None:
    assert Share().parse(given) == share


@pytest.mark.parametrize("given", ["1.01", -1, "nan", "inf", "1%", "", True, None, [1]])
def test_what_is_no_share(given: object) -> None:
    with pytest.raises(ValueError, match="is not a share; give a number from 0 to 1"):
        Share().parse(given)


def test_words_for_formats_are_accepted_in_any_case() -> None:
    assert LineFormat().parse("JSON") == "json"
    assert LineFormat().parse("{status}") == "{status}"
    with pytest.raises(ValueError, match="is no format; give combined, json, or a template"):
        LineFormat().parse("common")
