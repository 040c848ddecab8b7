"""Auto rebalance: the controller gives internal topics enough replicas, and a broker that joined its share.

`cluster.auto_rebalance` decides what to move. Internal topics are checked whenever brokers register; other topics are
spread only with `auto.partition.rebalance.enable`, a few partitions at a time, each at `reassignment.throttled.rate`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster.auto_rebalance import partitions_to_spread, replicas_to_add
from qanat.cluster.controller import PartitionChange
from qanat.cluster.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from qanat.telemetry.events import log_event


class AutoRebalance:
    """Moves that the controller begins by itself; `carry_out` commits as the controller."""

    def __init__(
        self, settings: CurrentSettings, carry_out: Callable[[Sequence[PartitionChange]], Awaitable[bool]]
    ) -> None:
        self._settings = settings
        self._image = settings.image
        self._carry_out = carry_out

    async def complete_internal_topics(self) -> None:
        """Add replicas to internal topics that were created with fewer brokers."""
        groups, transactions = self._settings.at_start.groups, self._settings.transactions
        wanted = {
            OFFSETS_TOPIC: groups.offsets_topic_replication_factor,
            TRANSACTIONS_TOPIC: transactions.transaction_state_log_replication_factor,
            SHARE_STATE_TOPIC: groups.share_coordinator_state_topic_replication_factor,
        }
        await self._begin(list(replicas_to_add(self._image, wanted)), "internal topics get more replicas")

    async def spread(self) -> None:
        """Begin the next moves towards an even spread, where that is enabled."""
        settings = self._settings.broker
        if settings.auto_partition_rebalance_enable:
            changes = partitions_to_spread(self._image, settings.auto_partition_rebalance_moves)
            await self._begin(changes, "partitions are being spread over the brokers")

    async def _begin(self, changes: Sequence[PartitionChange], what: str) -> None:
        if changes and await self._carry_out(changes):
            log_event(what, partitions=len(changes))
