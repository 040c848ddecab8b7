"""The interval of a median by order statistics."""

from __future__ import annotations

import pytest
from bench.request_pairs import interval


@pytest.mark.parametrize(
    ("count", "place"),
    [(6, 0), (8, 0), (9, 1), (21, 5), (40, 13)],
    ids=str,
)
def test_the_interval_covers_the_median_with_95_percent(count: int, place: int) -> None:
    """Places as in the tables of the sign test."""
    values = [float(number) for number in reversed(range(count))]

    assert interval(values) == (place, count - 1 - place)
