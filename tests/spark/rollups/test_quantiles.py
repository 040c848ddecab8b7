"""Quantiles of many windows at once equal those of each; rounding stays within its error."""

from __future__ import annotations

import statistics
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.spark.rollups.quantiles import quantiles, rounded


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.sampled_from([0.1, 0.01, 0.001]))
def test_rounding_stays_within_its_error_and_keeps_the_order(values: list[float], error: float) -> None:
    found = rounded(np.array(sorted(values)), error)
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) >= 0)
    assert np.all(np.abs(found - sorted(values)) <= error * np.abs(sorted(values)) * (1 + 1e-9) + 5e-324)


def test_rounding_twice_changes_nothing() -> None:
    once = rounded(np.array([0.0, 1e-12, 41.7, -3.5e9]), 0.01)
    assert rounded(once, 0.01) == pytest.approx(once, rel=1e-12)


def test_quantiles_of_many_windows_are_those_of_each() -> None:
    random = Random(7)
    windows = [[random.choice([1.0, 2.5, -4.0, random.random()]) for _ in range(size)] for size in (1, 2, 3, 50, 400)]
    values, counts, ends = [], [], []
    for window in windows:
        unique = sorted(set(window))
        values += unique
        counts += [window.count(value) for value in unique]
        ends.append(len(values))
    found = quantiles(np.array(values), np.array(counts), np.array(ends), (0.5, 0.95, 0.99))
    for number, window in enumerate(windows):
        cuts = statistics.quantiles(window, n=100, method="inclusive") if len(window) > 1 else window * 99
        assert [one[number] for one in found] == pytest.approx([cuts[49], cuts[94], cuts[98]])
