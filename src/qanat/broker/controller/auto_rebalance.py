"""Auto rebalance: the controller gives internal topics enough replicas, and a broker that joined its share.

`cluster.auto_rebalance` decides what to move. Internal topics are checked whenever brokers register; other topics are
spread only with `auto.partition.rebalance.enable`, a few partitions at a time, each at `reassignment.throttled.rate`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster.auto_rebalance import partitions_to_spread, replicas_to_add
from qanat.cluster.controller import PartitionChange
from qanat.cluster.host_defaults import IN_SYNC, MIN_IN_SYNC, completed_internal_topics
from qanat.cluster.store import Compare, Operation
from qanat.cluster.topic_configs import ConfigAct, ConfigChange, ConfigPlan, decide_configs
from qanat.model.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from qanat.telemetry.events import log_event


class AutoRebalance:
    """Moves that the controller begins by itself; `carry_out` commits as the controller, `commit` as any broker."""

    def __init__(
        self,
        settings: CurrentSettings,
        carry_out: Callable[[Sequence[PartitionChange]], Awaitable[bool]],
        commit: Callable[[Sequence[Compare], Sequence[Operation]], Awaitable[bool]],
    ) -> None:
        self._settings = settings
        self._image = settings.image
        self._carry_out = carry_out
        self._commit = commit

    async def complete_internal_topics(self) -> None:
        """Add replicas to internal topics that were created with fewer brokers."""
        groups, transactions = self._settings.at_start.groups, self._settings.transactions
        wanted = {
            OFFSETS_TOPIC: groups.offsets_topic_replication_factor,
            TRANSACTIONS_TOPIC: transactions.transaction_state_log_replication_factor,
            SHARE_STATE_TOPIC: groups.share_coordinator_state_topic_replication_factor,
        }
        await self._begin(list(replicas_to_add(self._image, wanted)), "internal topics get more replicas")
        if MIN_IN_SYNC not in self._settings.topic_defaults:
            for name in list(completed_internal_topics(self._image)):
                change = ConfigChange(MIN_IN_SYNC, ConfigAct.SET, str(IN_SYNC))
                plan = decide_configs(self._image, name, [change], self._settings.check_topic)
                if isinstance(plan, ConfigPlan) and await self._commit(plan.compares, plan.operations):
                    log_event("topic needs two replicas in sync", topic=name)

    async def spread(self) -> None:
        """Begin the next moves towards an even spread, where that is enabled."""
        settings = self._settings.broker
        if settings.auto_partition_rebalance_enable:
            changes = partitions_to_spread(self._image, settings.auto_partition_rebalance_moves)
            await self._begin(changes, "partitions are being spread over the brokers")

    async def _begin(self, changes: Sequence[PartitionChange], what: str) -> None:
        if changes and await self._carry_out(changes):
            log_event(what, partitions=len(changes))
