"""The interval of a median by order statistics, and what instructions are divided by."""

from __future__ import annotations

import pytest
from bench.request import TOGETHER
from bench.request_pairs import interval, together


@pytest.mark.parametrize(
    ("count", "place"),
    [(6, 0), (8, 0), (9, 1), (21, 5), (40, 13)],
    ids=str,
)
def test_the_interval_covers_the_median_with_95_percent(count: int, place: int) -> None:
    """Places as in the tables of the sign test."""
    values = [float(number) for number in reversed(range(count))]

    assert interval(values) == (place, count - 1 - place)


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [([], TOGETHER), (["--kind", "fetch"], TOGETHER), (["--together", "1", "--rules", "9"], 1), (["--together=3"], 3)],
    ids=str,
)
def test_the_requests_of_a_read_are_those_that_were_asked_for(arguments: list[str], requests: int) -> None:
    assert together(arguments) == requests
