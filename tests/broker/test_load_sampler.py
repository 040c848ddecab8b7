"""What appends wait for, at one look: this broker's disk, or its followers, and which of them alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from qanat.broker.load_sampler import LoadSampler


def seen(ends: list[int], flushed: int, held: dict[int, int], *, is_synced: bool = True) -> tuple[Any, ...]:
    """Seconds of disk, of followers, and by follower, after a look that stands for two seconds."""
    partition: Any = SimpleNamespace(
        leader=SimpleNamespace(held_by=lambda node_id: (0, held[node_id]), in_sync=(0, *held)),
        log=SimpleNamespace(flushed_offset=flushed, settings=SimpleNamespace(is_synced=is_synced)),
        waiting_ends=ends,
    )
    host: Any = SimpleNamespace(
        node_id=0,
        partitions={("t", 0): partition},
        runtime=SimpleNamespace(appends_without_room=0, waiting_for_flush=list, cold_reads_waiting=0),
        metadata=SimpleNamespace(committing=0),
        listener_load=None,
    )
    sampler = LoadSampler(host)
    sampler._look(2.0)
    return sampler._disk, sampler._followers, dict(sampler._behind)


@pytest.mark.parametrize(
    ("ends", "flushed", "held", "expected"),
    [
        ([], 10, {1: 0, 2: 0}, (0, 0, {})),
        ([11, 12], 10, {1: 10, 2: 10}, (4, 0, {})),
        ([11, 12, 20], 12, {1: 10, 2: 10}, (2, 4, {})),
        ([11, 12, 20], 20, {1: 10, 2: 20}, (0, 6, {1: 6})),
        ([11, 12, 20], 20, {1: 11, 2: 12}, (0, 6, {1: 2})),
        ([11, 12, 20], 12, {1: 10, 2: 20}, (2, 4, {1: 4})),
        ([11, 12], 12, {1: -1}, (0, 4, {1: 4})),
    ],
    ids=(
        "nothing waits",
        "all wait for the disk here",
        "two followers together",
        "one follower alone",
        "the slower of two",
        "a follower, and the disk",
        "a follower that has not fetched",
    ),
)
def test_each_wait_has_its_cause(ends: list[int], flushed: int, held: dict[int, int], expected: Any) -> None:
    assert seen(ends, flushed, held) == expected


def test_a_topic_that_is_not_synced_waits_for_no_disk() -> None:
    assert seen([11, 12], 0, {1: 10}, is_synced=False) == (0, 4, {1: 4})
