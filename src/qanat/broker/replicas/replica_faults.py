"""Replica faults: replicas of ours that are damaged or cannot be opened, reported in one key under our lease.

The controller lets other replicas lead and removes ours from the in-sync set; then we repair it from its leader
(`replica_fetchers`), and report it no more. Nothing is written while all logs are sound.

Rule: a log is not repaired before the partition's state says so (`PartitionState.damaged`). Until then it may be the
      only copy, and it may count as in sync.
"""

from __future__ import annotations

import asyncio

import msgspec

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.replica_logs import damaged_ranges
from qanat.cluster import keys, values
from qanat.cluster.store import Compare, CreatedAt, Delete, Operation, Put
from qanat.log.directories.directory import LogDirectory
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError
from qanat.model.ids import TopicPartition
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.telemetry.events import log_event

_RETRY_S = 0.5
_MOST_BYTES = 512 * 1024
"""Of one report, half of what the store accepts at once. Further faults are reported when these are repaired."""
_MOST_RANGES = 10
"""Of one fault; `qanat log verify` lists all."""
_REASON_CHARACTERS = 80


class ReplicaFaults:
    """Our faulty replicas. `note` whenever one may have appeared or gone."""

    def __init__(
        self, node: ClusterNode, directory: LogDirectory, local_replicas: LocalReplicas, counters: BrokerCounters
    ) -> None:
        self._node = node
        self._directory = directory
        self._local_replicas = local_replicas
        self._counters = counters
        self.damaged: dict[TopicPartition, None] = {}
        """Logs that are open and damaged."""
        self._reporting: asyncio.Task[None] | None = None
        self._is_stale = False

    def note(self) -> None:
        """Look at all logs again and report what has changed."""
        logs = self._directory.logs
        self.damaged = {at: None for at, log in logs.items() if any(segment.damage for segment in log.segments)}
        self.report()

    def note_damage(self, at: TopicPartition) -> None:
        """A log was just found to be damaged."""
        self.damaged[at] = None
        self.report()

    def repaired(self, at: TopicPartition) -> None:
        """A log has no damage any more."""
        self.damaged.pop(at, None)
        self._counters.replicas_repaired += 1
        self.report()

    def faulty(self) -> list[TopicPartition]:
        """Our replicas that are offline or damaged."""
        return list(dict.fromkeys([*self._local_replicas.offline_partitions(), *self.damaged]))

    def report(self) -> None:
        """Bring the store in line with what we know, in a task of its own."""
        self._is_stale = True
        if self._reporting is None or self._reporting.done():
            self._reporting = self._node.park(self._report())

    async def _report(self) -> None:
        await asyncio.sleep(0)  # Other faults of this turn are reported together.
        while self._is_stale:
            self._is_stale = False
            try:
                if not await self._commit():
                    self._is_stale = True
                    await asyncio.sleep(_RETRY_S)
            except (StoreUnavailableError, LeaseExpiredError):
                self._is_stale = True
                await asyncio.sleep(_RETRY_S)

    async def _commit(self) -> bool:
        """False where it must be tried again; where we are not registered, the next registration reports."""
        node, image = self._node, self._node.metadata.image
        epoch, kept, key = node.membership.epoch, node.membership.kept_lease, keys.replica_faults(node.node_id)
        if epoch is None or kept is None:
            return True
        wanted = values.ReplicaFaults(broker_epoch=epoch, faults=self._faults())
        known = image.fault_reports.get(node.node_id)
        if known == wanted or (known is None and not wanted.faults and key not in image.revisions):
            return True
        compares: list[Compare] = [CreatedAt(keys.broker(node.node_id), epoch), image.unchanged(key)]
        put = Put(key, values.encode(wanted), kept.lease.lease_id)
        operation: Operation = put if wanted.faults else Delete(key)
        return await node.metadata.commit(compares, [operation])

    def _faults(self) -> tuple[values.ReplicaFault, ...]:
        found = [*self._offline(), *self._damaged()]
        size, reported = 0, list[values.ReplicaFault]()
        for fault in found:
            size += len(msgspec.json.encode(fault)) + 1
            if size > _MOST_BYTES:
                log_event(
                    "more replicas are faulty than can be reported",
                    level="error",
                    faulty=len(found),
                    reported=len(reported),
                )
                break
            reported.append(fault)
        return tuple(reported)

    def _offline(self) -> list[values.ReplicaFault]:
        local_replicas = self._local_replicas
        ids = {at: self._topic_id(at) for at in local_replicas.offline_partitions()}
        return [
            values.ReplicaFault(topic_id, at.partition, (), (local_replicas.why_offline(at) or "")[:_REASON_CHARACTERS])
            for at, topic_id in ids.items()
            if topic_id is not None
        ]

    def _damaged(self) -> list[values.ReplicaFault]:
        logs = self._directory.logs
        faults = []
        for at in self.damaged:
            topic_id, log = self._topic_id(at), logs.get(at)
            if topic_id is not None and log is not None and (damage := log.damage):
                ranges = damaged_ranges(log)[:_MOST_RANGES]
                faults.append(
                    values.ReplicaFault(topic_id, at.partition, ranges, damage[0].reason[:_REASON_CHARACTERS])
                )
        return faults

    def _topic_id(self, at: TopicPartition) -> str | None:
        topic = self._node.metadata.image.topics.get(at.topic)
        return None if topic is None else topic.topic_id
