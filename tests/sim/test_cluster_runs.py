"""Whole clusters from seeds: nothing acknowledged is lost under faults, and all agree when they are over."""

from __future__ import annotations

import pytest
from verify.clusters.run import ClusterRun
from verify.clusters.sweep import run_twice

SEEDS = 2
DATA_SEEDS = 20
MORE_SEEDS = 100
LONG_SEEDS = 300
PER_TEST = 10


def check(seeds: range) -> None:
    for seed in seeds:
        report = ClusterRun(seed).run()

        assert report.problems == [], f"python -m verify.clusters --seeds {seed}"
        assert report.acknowledged > 0


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_nothing_is_lost(seed: int) -> None:
    check(range(seed, seed + 1))


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize("first", range(1, DATA_SEEDS + 1, PER_TEST))
def test_nothing_is_lost_by_some_seeds(first: int) -> None:
    check(range(first, first + PER_TEST))


@pytest.mark.long
@pytest.mark.parametrize("first", range(DATA_SEEDS + 1, MORE_SEEDS + 1, PER_TEST))
def test_nothing_is_lost_by_more_seeds(first: int) -> None:
    check(range(first, first + PER_TEST))


@pytest.mark.long
@pytest.mark.parametrize("first", range(MORE_SEEDS + 1, LONG_SEEDS + 1, PER_TEST))
def test_nothing_is_lost_by_many_seeds(first: int) -> None:
    check(range(first, first + PER_TEST))


@pytest.mark.parametrize("seed", [653326, pytest.param(660784, marks=[pytest.mark.long, pytest.mark.data])])
def test_nothing_is_lost_where_it_was_before(seed: int) -> None:
    """A removed replica of a cancelled move; an older disk image, stopped cleanly before it was a member again."""
    check(range(seed, seed + 1))


@pytest.mark.parametrize("seed", [2, pytest.param(5, marks=pytest.mark.long)])
def test_one_seed_is_one_trace(seed: int) -> None:
    assert run_twice(seed).problems == []
