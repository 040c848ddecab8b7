"""In-sync replicas to spare: whether a partition takes writes while one more of its replicas is away."""

from __future__ import annotations

from qanat.broker.replicas.partition import Partition


def lacks_spare(one: Partition) -> bool:
    """Whether the loss of one more in-sync replica would stop writes, although there are replicas enough."""
    if one.leader is None or len(one.leader.replicas) <= one.needed_in_sync:
        return False
    return one.in_sync_replicas <= one.needed_in_sync
