"""A simulated tree of brokers: nothing is lost or doubled over links that fail, and each known bug is found.

More seeds: `make sim-edge SEEDS=1-5000`. The whole search: `python -m verify.edge bugs`.
"""

from __future__ import annotations

from functools import cache

import pytest
from verify.edge.bug_bank import BUGS, EdgeBug, search
from verify.edge.run import EdgeRun

SEEDS = range(1, 41)
QUICK = 8
"""So many seeds are part of `make test`, the others of `make test-data`; of the bugs, every third."""
_GUARDS = [pytest.mark.long, pytest.mark.data]


@cache
def run_of(seed: int) -> EdgeRun:
    """The run of a seed, once for all tests."""
    run = EdgeRun(seed)
    run.run()
    return run


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed <= QUICK else _GUARDS) for seed in SEEDS])
def test_nothing_is_lost_or_doubled_whatever_fails(seed: int) -> None:
    run_of(seed)


def _stored(run: EdgeRun) -> list[object]:
    logs = [log for child in run.children.values() for log in child.disk.logs]
    disks = [child.disk for child in run.children.values()]
    return [[(log.start, log.batches) for log in logs], [(disk.gaps, disk.topology, disk.outbox_end) for disk in disks]]


def test_one_seed_gives_one_history() -> None:
    first, second = run_of(7), EdgeRun(7)
    second.run()

    assert _stored(first) == _stored(second)
    assert first.world.faults == second.world.faults


@pytest.mark.long
@pytest.mark.data
def test_the_runs_contain_every_fault() -> None:
    seen: dict[str, int] = {}
    for seed in SEEDS:
        seen |= run_of(seed).world.faults

    assert set(seen) == {
        "cut",
        "cut of days",
        "slow link",
        "kill",
        "power loss",
        "kill between two acts",
        "kill of the root",
        "target made again",
        "failover at the root",
        "unclean election at the root",
        "retention",
        "move",
        "mistaken move",
        "impostor",
        "registry away",
        "registry restored",
        "gap skipped by the operator",
    }


@pytest.mark.parametrize("seed", [294, 426, 747, *(pytest.param(seed, marks=_GUARDS) for seed in (400, 470, 609, 680))])
def test_an_unclean_election_and_retention_together_leave_nothing_behind(seed: int) -> None:
    """A batch across the end, a parent that is stopped, a parent's gap, retention of the parent alone."""
    run_of(seed)


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=_GUARDS if at % 3 else []) for at, bug in enumerate(BUGS)],
    ids=lambda bug: bug.name,
)
def test_a_bug_of_the_bank_is_found_by_its_seed(bug: EdgeBug) -> None:
    assert search(bug, 1, bug.found_at) == bug.found_at
