"""Simulated refreshes: no generation is mixed or incomplete whoever is killed in which state; each bug is found.

More seeds: `python -m verify.push refreshes --seeds 1-2000`. The whole search: `python -m verify.push bugs`.
"""

from __future__ import annotations

import pytest
from verify.push.bug_bank import PushBug
from verify.push.refresh_bugs import REFRESH_BUGS, search_refreshes
from verify.push.refresh_run import RefreshRun


@pytest.mark.parametrize("seed", range(1, 26))
def test_generations_are_complete_and_never_mixed_whoever_is_killed(seed: int) -> None:
    RefreshRun(seed).run()


def test_one_seed_gives_one_history_of_refreshes() -> None:
    first, second = RefreshRun(7), RefreshRun(7)
    first.run()
    second.run()

    assert first.durable == second.durable
    assert first.faults == second.faults


def test_both_sides_are_killed_in_every_state() -> None:
    seen: dict[str, int] = {}
    for seed in range(1, 26):
        run = RefreshRun(seed)
        run.run()
        seen |= run.faults

    states = ("no refresh", "waiting", "resetting", "replaying", "readying")
    wanted = [f"kill of {who}, {state}" for who in ("a consumer", "the broker") for state in states]
    others = ["cut", "unclean election", "rebalance", "cancelled refresh", "failed commit"]
    assert [one for one in (*wanted, *others) if one not in seen] == []


@pytest.mark.parametrize("bug", REFRESH_BUGS, ids=lambda bug: bug.name)
def test_a_bug_of_refreshes_is_found_by_its_seed(bug: PushBug) -> None:
    assert search_refreshes(bug, 1, bug.found_at) == bug.found_at
