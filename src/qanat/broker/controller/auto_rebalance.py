"""The controller's care for where replicas are: internal topics have enough, and a broker that joined gets its share.

What to move is decided in `cluster.arrangement`. Internal topics are seen to whenever brokers come; the rest is spread
only where `auto.partition.rebalance.enable` says so, a few partitions at a time, each at the pace of
`reassignment.throttled.rate`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from qanat.cluster.arrangement import partitions_to_spread, replicas_to_add
from qanat.cluster.controller import PartitionChange
from qanat.cluster.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class AutoRebalance:
    """What the controller moves by itself; `carry_out` commits in its name."""

    def __init__(self, broker: Broker, carry_out: Callable[[Sequence[PartitionChange]], Awaitable[bool]]) -> None:
        self._broker = broker
        self._image = broker.metadata.image
        self._carry_out = carry_out

    async def complete_internal_topics(self) -> None:
        """Give internal topics that began with fewer brokers the replicas that they should have."""
        groups, transactions = self._broker.at_start.groups, self._broker.transaction_settings
        wanted = {
            OFFSETS_TOPIC: groups.offsets_topic_replication_factor,
            TRANSACTIONS_TOPIC: transactions.transaction_state_log_replication_factor,
            SHARE_STATE_TOPIC: groups.share_coordinator_state_topic_replication_factor,
        }
        await self._begin(list(replicas_to_add(self._image, wanted)), "internal topics get more replicas")

    async def spread(self) -> None:
        """Begin the next moves towards an even spread, where that is wanted."""
        settings = self._broker.settings
        if settings.auto_partition_rebalance_enable:
            changes = partitions_to_spread(self._image, settings.auto_partition_rebalance_moves)
            await self._begin(changes, "partitions are being spread over the brokers")

    async def _begin(self, changes: Sequence[PartitionChange], what: str) -> None:
        if changes and await self._carry_out(changes):
            log_event(what, partitions=len(changes))
