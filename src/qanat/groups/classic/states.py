"""The states of a classic group, as a table."""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """Kafka's names, as DescribeGroups and ListGroups show them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREDECESSORS: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
}
"""The allowed transitions; anything else is a bug. Only empty groups are deleted, which Kafka then calls dead."""
