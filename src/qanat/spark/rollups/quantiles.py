"""Quantiles of many windows at once, and the rounding that keeps their state small.

A window keeps its values with their counts. With a relative error, values are rounded first, to the nearest of numbers
that are that far apart: as many values as a window may have, it keeps a few hundred numbers. Rounding depends on
nothing but the value, so that windows merge without further error, in any order: this is DDSketch (Masson, Rim, Lee,
VLDB 2019) without its limit of buckets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST = float(np.finfo(np.float64).max)


def rounded(values: Floats, error: float) -> Floats:
    """Values to within a relative error; zero stays zero.

    >>> rounded(np.array([0.0, 41.7, -41.7]), 0.01).round(2).tolist()
    [0.0, 41.67, -41.67]
    """
    step = np.log1p(error) - np.log1p(-error)
    sizes = np.abs(values)
    with np.errstate(divide="ignore", over="ignore"):
        buckets = np.ceil(np.log(sizes) / step)
        # The number that is as far from both ends of its bucket, relatively.
        nearest = np.minimum(np.exp(buckets * step) * (1.0 - error), _LARGEST)
    return np.where(sizes > 0, np.copysign(nearest, values), 0.0)


def quantiles(values: Floats, counts: Integers, ends: Integers, shares: tuple[float, ...]) -> list[Floats]:
    """Quantiles by linear interpolation of windows that lie one after the other, each sorted by value.

    `counts` says how often each value occurs, `ends` where each window ends.

    >>> values, counts, ends = np.array([1.0, 3.0, 7.0]), np.array([2, 1, 1]), np.array([2, 3])
    >>> [one.tolist() for one in quantiles(values, counts, ends, (0.5, 1.0))]
    [[1.0, 7.0], [3.0, 7.0]]
    """
    until = np.cumsum(counts)
    after = until[ends - 1]
    before = np.concatenate([np.zeros(1, np.int64), after[:-1]])
    sizes = after - before
    result = []
    for share in shares:
        place = (sizes - 1) * share
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, sizes - 1)
        low = values[np.searchsorted(until, before + below, side="right")]
        high = values[np.searchsorted(until, before + above, side="right")]
        result.append(low + (high - low) * (place - below))
    return result
