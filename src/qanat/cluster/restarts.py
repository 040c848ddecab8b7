"""Restarts: whether a partition stays available for writes while one broker is down for a moment.

Rule 1: what a restart interrupts at any time does not forbid it: a partition whose every replica is needed, a single
        one above all, would forbid it for ever.
Rule 2: each broker answers for itself. Brokers are restarted one after another, never two at once by two answers.
"""

from __future__ import annotations

from typing import Literal

from qanat.cluster.image import MetadataImage
from qanat.cluster.values import PartitionState

Effect = Literal["none", "interrupted", "blocked"]
"""Of a restart on a partition: nothing; interrupted whenever it happens; writes would stop that need not."""


def others_in_sync(image: MetadataImage, state: PartitionState, node_id: int) -> int:
    """In-sync replicas that are left without this broker."""
    return sum(
        member.node_id != node_id
        and (broker := image.brokers.get(member.node_id)) is not None
        and not broker.is_stopping
        for member in state.in_sync
    )


def effect_of_restart(image: MetadataImage, state: PartitionState, node_id: int, min_in_sync: int) -> Effect:
    """What a restart of this broker does to a partition now."""
    if node_id not in state.replicas:
        return "none"
    needed = min(min_in_sync, len(state.target))
    if len(state.replicas) <= needed:
        return "interrupted"
    return "blocked" if others_in_sync(image, state, node_id) < needed else "none"
