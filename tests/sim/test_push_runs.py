"""Simulated push: no record is lost whoever is killed when, and each known bug is found.

More seeds: `python -m verify.push --seeds 1-2000`. The whole search: `python -m verify.push bugs`.
"""

from __future__ import annotations

import pytest
from verify.push.bug_bank import BUGS, PushBug, search
from verify.push.run import PushRun


@pytest.mark.parametrize("seed", range(1, 31))
def test_nothing_is_lost_whoever_is_killed(seed: int) -> None:
    PushRun(seed).run()


def test_one_seed_gives_one_history() -> None:
    first, second = PushRun(7), PushRun(7)
    first.run()
    second.run()

    assert first.durable == second.durable
    assert first.faults == second.faults


def test_the_runs_contain_every_fault() -> None:
    seen: dict[str, int] = {}
    for seed in range(1, 21):
        run = PushRun(seed)
        run.run()
        seen |= run.faults

    assert set(seen) == {"kill of a consumer", "kill of the broker", "cut", "unclean election"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_of_the_bank_is_found_by_its_seed(bug: PushBug) -> None:
    assert search(bug, 1, bug.found_at) == bug.found_at
