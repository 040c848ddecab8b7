"""Storage faults: what follows when the data directory fails or a log turns out to be damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.replica_faults import ReplicaFaults
from qanat.broker.runtime import operator_events
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.segments.batch_scan import Damage
from qanat.model.errors import StorageError, StoreUnavailableError


class StorageFaults:
    """Listens to the logs of one broker. `start` before the directory may fail."""

    def __init__(
        self, node: ClusterNode, runtime: LogRuntime, local_replicas: LocalReplicas, replica_faults: ReplicaFaults
    ) -> None:
        self._node = node
        self._local_replicas = local_replicas
        self._replica_faults = replica_faults
        self._loop: asyncio.AbstractEventLoop | None = None
        runtime.on_damage = self._on_damage
        runtime.directory.state.on_failure = self._on_failed_directory

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def _on_failed_directory(self, fault: StorageError) -> None:
        """Nothing can be written any more: let others lead, and leave all in-sync sets (C23). The process stays.

        Called by the thread that found out.
        """
        operator_events.directory_failure(fault)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._node.park(self.step_down()))

    def _on_damage(self, log: PartitionLog, found: Sequence[Damage]) -> None:
        operator_events.damage(log, found)
        self._replica_faults.note_damage(log.topic_partition)

    async def step_down(self) -> None:
        """Follow and lead nothing any more."""
        if self._local_replicas.fetchers is not None:
            await self._local_replicas.fetchers.close()
        with suppress(StoreUnavailableError):
            await self._node.membership.announce_stop()
