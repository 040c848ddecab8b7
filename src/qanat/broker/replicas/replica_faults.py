"""Logs of ours that are damaged or cannot be opened, reported to the cluster: one key, under our lease.

The controller lets other replicas lead and takes ours out of the in-sync set; then we repair it from its leader
(`followers`), and report it no more. Nothing is written while all logs are sound.

Rule: a log is not repaired before the partition's state says so (`PartitionState.damaged`). Until then it may be the
      only copy, and it may count as in sync.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from qanat.broker.replicas.replica_logs import damaged_ranges
from qanat.cluster import keys, values
from qanat.cluster.store import Compare, CreatedAt, Delete, Operation, Put
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_RETRY_S = 0.5
_MOST_BYTES = 512 * 1024
"""Of one report, half of what the store takes at once. The next ones are told when these are repaired."""
_MOST_RANGES = 10
"""Of one fault; `qanat log verify` lists all."""
_REASON_CHARACTERS = 80


class ReplicaFaults:
    """Our faulty replicas. `note` whenever one may have appeared or gone."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.damaged: dict[TopicPartition, None] = {}
        """Logs that are open and damaged."""
        self._reporting: asyncio.Task[None] | None = None
        self._is_stale = False

    def note(self) -> None:
        """Look at all logs again and report what has changed."""
        logs = self._broker.runtime.directory.logs
        self.damaged = {at: None for at, log in logs.items() if any(segment.damage for segment in log.segments)}
        self.report()

    def note_damage(self, at: TopicPartition) -> None:
        """A log was found to be damaged, just now."""
        self.damaged[at] = None
        self.report()

    def repaired(self, at: TopicPartition) -> None:
        """A log holds nothing any more that cannot be read."""
        self.damaged.pop(at, None)
        self._broker.counters.replicas_repaired += 1
        self.report()

    def faulty(self) -> list[TopicPartition]:
        """Replicas of ours that are offline or damaged."""
        return list(dict.fromkeys([*self._broker.local_replicas.offline_partitions(), *self.damaged]))

    def report(self) -> None:
        """Bring the store in line with what we know, beside everything else."""
        self._is_stale = True
        if self._reporting is None or self._reporting.done():
            self._reporting = self._broker.park(self._report())

    async def _report(self) -> None:
        await asyncio.sleep(0)  # What else this turn finds goes along.
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
        """False where it must be tried again; where we are not registered, joining reports."""
        broker, image = self._broker, self._broker.metadata.image
        epoch, kept, key = broker.membership.epoch, broker.membership.kept, keys.replica_faults(broker.node_id)
        if epoch is None or kept is None:
            return True
        wanted = values.ReplicaFaults(broker_epoch=epoch, faults=self._faults())
        known = image.fault_reports.get(broker.node_id)
        if known == wanted or (known is None and not wanted.faults and key not in image.revisions):
            return True
        compares: list[Compare] = [CreatedAt(keys.broker(broker.node_id), epoch), image.unchanged(key)]
        put = Put(key, values.encode(wanted), kept.lease.lease_id)
        operation: Operation = put if wanted.faults else Delete(key)
        return await broker.metadata.commit(compares, [operation])

    def _faults(self) -> tuple[values.ReplicaFault, ...]:
        found = [*self._offline(), *self._damaged()]
        size, told = 0, list[values.ReplicaFault]()
        for fault in found:
            size += len(msgspec.json.encode(fault)) + 1
            if size > _MOST_BYTES:
                log_event(
                    "more replicas are faulty than can be reported", level="error", faulty=len(found), told=len(told)
                )
                break
            told.append(fault)
        return tuple(told)

    def _offline(self) -> list[values.ReplicaFault]:
        local_replicas = self._broker.local_replicas
        ids = {at: self._topic_id(at) for at in local_replicas.offline_partitions()}
        return [
            values.ReplicaFault(topic_id, at.partition, (), (local_replicas.why_offline(at) or "")[:_REASON_CHARACTERS])
            for at, topic_id in ids.items()
            if topic_id is not None
        ]

    def _damaged(self) -> list[values.ReplicaFault]:
        logs = self._broker.runtime.directory.logs
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
        topic = self._broker.metadata.image.topics.get(at.topic)
        return None if topic is None else topic.topic_id
