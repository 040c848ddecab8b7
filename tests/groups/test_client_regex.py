"""Regular expressions of clients: RE2's, whatever they are given."""

from __future__ import annotations

import pytest

from qanat.groups.client_regex import InvalidPatternError, pattern
from qanat.model.error_codes import ErrorCode


def test_a_pattern_matches_the_whole_text() -> None:
    assert pattern("orders-.*").matches("orders-1")
    assert not pattern("orders").matches("orders-1")
    assert pattern("").matches("")


def test_what_takes_python_for_ever_takes_no_time() -> None:
    assert not pattern("(a+)+$").matches("a" * 5_000 + "!")


@pytest.mark.parametrize("text", ["(", "a{100000}", "(?<=a)b", "((a{100}){100}){100}"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        pattern(text)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
