"""The share coordinator: one shard per partition of `__share_group_state` that this broker leads.

A partition's state is a snapshot and the updates after it, so the topic is not compacted: records before the oldest
snapshot that is still needed are deleted. A snapshot with too many records after it is written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from qanat.broker.coordinators.coordinator_shard import Clocks, CoordinatorShard
from qanat.broker.coordinators.internal_topic import InternalTopic
from qanat.broker.coordinators.shard_loading import replay
from qanat.broker.replicas.partition import Partition
from qanat.broker.share.remote_state import RemoteShareState, SharePersister
from qanat.broker.share.share_host import ShareHost
from qanat.cluster.values import NO_LEADER
from qanat.groups.decisions import coordinator_error
from qanat.groups.settings import GroupSettings
from qanat.groups.share.state_codec import decode_record, encode_record
from qanat.groups.share.state_records import LedgerRecord, ShareKey, ShareSnapshot, ShareTombstone
from qanat.groups.share.state_shard import (
    ReadState,
    ShareStateShard,
    SnapshotState,
    StateDecision,
    StateReply,
    StateRequest,
)
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import SHARE_STATE_TOPIC
from qanat.wire.records import Record, decode_records, encode_batch

_DECODED_BYTES_MAX = 64 * 1024 * 1024
_TOPIC_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
}
_RECORDS_KEPT = 20_000
"""So many records may follow the oldest snapshot, and as many per partition that has one."""

Answer = asyncio.Future[StateReply]


class ShareCoordinator:
    """The state of the share partitions that this broker coordinates."""

    def __init__(self, host: ShareHost, settings: GroupSettings, clocks: Clocks) -> None:
        self._host = host
        self._updates_per_snapshot = settings.share_coordinator_snapshot_update_records_per_snapshot
        self._clocks = clocks
        self.topic: InternalTopic[ShareCoordinatorShard] = InternalTopic(
            host,
            SHARE_STATE_TOPIC,
            settings.share_coordinator_state_topic_num_partitions,
            settings.share_coordinator_state_topic_replication_factor,
            _TOPIC_CONFIGS,
            self._load,
            coordinator_error,
        )

    def close(self) -> None:
        self.topic.close()

    async def persister_of(self, key: ShareKey) -> SharePersister | ErrorCode:
        """The persister of a partition's state: a shard of ours, or another broker."""
        if (error := await self.topic.ensure()) is not ErrorCode.NONE:
            return error
        number, image = self.topic.partition_of(str(key)), self._host.metadata.image
        leader = image.state(image.topics[self.topic.name], number).leader
        if leader == self._host.node_id:
            return await self.topic.shard(number)
        if leader == NO_LEADER:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return RemoteShareState(self._host.peers, self._host, leader, self._clocks)

    async def state_of(self, key: ShareKey) -> ShareSnapshot | ErrorCode | None:
        """The state of a partition; asking creates nothing."""
        if not self.topic.is_there:
            return None
        persister = await self.persister_of(key)
        if isinstance(persister, ErrorCode):
            return persister
        reply = await persister.ask(ReadState(key))
        return reply.error if reply.error is not ErrorCode.NONE else reply.state

    async def ask(self, request: StateRequest) -> Answer:
        """A shard of ours decides, for another broker; the reply comes when that is durable. A caller with many
        requests sends several before the first reply: then they are on disk together."""
        shard = await self.topic.shard(self.topic.partition_of(str(request.key)))
        if not isinstance(shard, ErrorCode):
            return shard.ask(request)
        answer: Answer = asyncio.get_running_loop().create_future()
        answer.set_result(StateReply(shard))
        return answer

    async def _load(self, partition: Partition) -> ShareCoordinatorShard:
        shard = ShareStateShard(self._updates_per_snapshot)
        snapshot_offsets: dict[ShareKey, int] = {}

        def take(batch: memoryview) -> None:
            for record in decode_records(batch, _DECODED_BYTES_MAX):
                decoded = decode_record(record.key or b"", record.value)
                if decoded is not None:
                    shard.apply(decoded)
                    _note(snapshot_offsets, decoded, record.offset)

        await replay(partition, take)
        return ShareCoordinatorShard(shard, partition, self._clocks, snapshot_offsets)


class ShareCoordinatorShard(CoordinatorShard[StateRequest, StateReply, StateDecision]):
    """A shard with its partition, and the offsets of its snapshots."""

    def __init__(
        self, shard: ShareStateShard, partition: Partition, clocks: Clocks, snapshot_offsets: dict[ShareKey, int]
    ) -> None:
        super().__init__(shard, partition, clocks)
        self.shard = shard
        self._snapshot_offsets = snapshot_offsets
        """The offset of every partition's latest snapshot, the oldest first."""

    def _batch(self, decision: StateDecision) -> bytearray | None:
        if not decision.records:
            return None
        now_ms = self.clocks.wall_ms()
        for number, record in enumerate(decision.records, self.partition.log.end_offset):
            _note(self._snapshot_offsets, record, number)
        return encode_batch(
            [Record(number, now_ms, *encode_record(record)) for number, record in enumerate(decision.records)]
        )

    def _answers(self, decision: StateDecision, answer: Answer | None) -> Iterable[tuple[Answer, StateReply]]:
        if answer is None:
            return []
        assert decision.reply is not None
        return [(answer, decision.reply)]

    def _refusal(self, request: StateRequest, error: ErrorCode) -> StateReply:
        return StateReply(error)

    def _coordinator_error(self, append_error: ErrorCode) -> ErrorCode:
        return coordinator_error(append_error)

    def _follow(self, decision: StateDecision) -> None:
        """Delete records that are no longer needed, and write a snapshot where that makes some of them so."""
        log, bound = self.partition.log, _RECORDS_KEPT + len(self._snapshot_offsets)
        if log.end_offset - log.log_start_offset <= bound or not self.is_serving:
            return
        key, oldest = next(iter(self._snapshot_offsets.items()), (None, log.high_watermark))
        if key is not None and log.end_offset - oldest > bound:
            self.ask(SnapshotState(key))
        elif oldest - log.log_start_offset > bound // 2:
            log.advance_log_start(min(oldest, log.high_watermark))


def _note(snapshot_offsets: dict[ShareKey, int], record: LedgerRecord, offset: int) -> None:
    """Remember the offsets of the latest snapshots, in order."""
    if isinstance(record, ShareSnapshot | ShareTombstone):
        snapshot_offsets.pop(record.key, None)
    if isinstance(record, ShareSnapshot):
        snapshot_offsets[record.key] = offset
