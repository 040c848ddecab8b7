"""Controlled shutdown: other brokers take over the partitions that this one leads, before it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.model.errors import StoreUnavailableError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import log_event


class ControlledShutdown:
    """Hands leadership over. `note` whenever the metadata image has changed."""

    def __init__(
        self, node: ClusterNode, partitions: Mapping[TopicPartition, Partition], settings: CurrentSettings
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._settings = settings
        self._changed = asyncio.Event()

    def note(self) -> None:
        self._changed.set()

    async def hand_over(self) -> None:
        """Let other brokers lead what we lead, where they can, for `controlled.shutdown.timeout.ms` at most."""
        timeout_s = self._settings.broker.controlled_shutdown_timeout_ms / 1000
        if not any(one.leader is not None for one in self._partitions.values()):
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._node.membership.announce_stop()
                while any(self._could_be_led_by_others(one) for one in self._partitions.values()):
                    self._changed.clear()
                    await self._changed.wait()
        except (StoreUnavailableError, TimeoutError):
            log_event("stopping without having handed everything over", level="warning", node=self._node.node_id)

    def _could_be_led_by_others(self, partition: Partition) -> bool:
        brokers = self._node.metadata.image.brokers
        return partition.leader is not None and any(
            one != self._node.node_id and one in brokers and not brokers[one].is_stopping
            for one in partition.leader.in_sync
        )
