"""Verdicts on ratios: met or missed only where the printed figures agree."""

from __future__ import annotations

from qanat.app.bench.figures import Limit, Required, row
from qanat.app.bench.report import Result, cells


def test_a_ratio_that_the_printed_figures_contradict_is_inconclusive() -> None:
    """Two of three rounds are better than the limit, and the median of ours is worse than the limit's."""
    ours, limit = [0.5, 1.6, 1.7], Limit([1.0, 2.0, 0.8], "limit")
    found = row("figure", "what", "ms", ours, limit, Required("ratio", "<=", 1.0), Required("ratio", "<=", 0.5))

    assert (found.ours, found.limit, found.ratio) == (1.6, 1.0, 0.8)
    assert found.ratio_of_medians == 1.6
    assert (found.verdict, found.goal_verdict) == ("inconclusive", "NOT met")
    assert cells(found)[6] == "inconclusive; goal not met"
    assert Result({}, {}, [found], [], []).missed == []


def test_a_bound_on_the_figure_itself_is_never_inconclusive() -> None:
    found = row("figure", "what", "ms", [0.5, 1.6, 1.7], Limit([1.0, 2.0, 0.8], "limit"), Required("ours", "<=", 1.6))

    assert found.verdict == "met"
