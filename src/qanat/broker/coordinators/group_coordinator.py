"""The group coordinator: one shard per partition of `__consumer_offsets` that this broker leads.

Shards decide (`groups.decisions`); `coordinator_shard` appends and answers. A shard whose append fails is dropped, its
requests are refused, and the next request loads a new one from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from qanat.broker.coordinators import group_events
from qanat.broker.coordinators.coordinator_host import CoordinatorHost
from qanat.broker.coordinators.coordinator_shard import Clocks, CoordinatorShard
from qanat.broker.coordinators.internal_topic import InternalTopic
from qanat.broker.coordinators.shard_loading import replay
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.broker.settings.group_settings import GroupConfigs
from qanat.cluster.image import MetadataImage
from qanat.groups.assignors.assignor import Assignor
from qanat.groups.decisions import Decision, Parked, coordinator_error
from qanat.groups.record_codec import decode_record, encode_record
from qanat.groups.replies import Reply, refused
from qanat.groups.requests import CommitTransactionOffsets, Request
from qanat.groups.settings import GroupSettings
from qanat.groups.shard import GroupShard
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_PRODUCER_ID, TopicId
from qanat.model.topic_names import OFFSETS_TOPIC
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.wire.batch_header import read_header
from qanat.wire.control import decode_marker
from qanat.wire.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from qanat.broker.coordinators.transaction_verification import TransactionVerification

_DECODED_BYTES_MAX = 64 * 1024 * 1024
_TOPIC_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024), "compression.type": "producer"}

Answer = asyncio.Future[Reply]


class GroupHost(CoordinatorHost, Protocol):
    """What the coordinator of groups needs of its broker."""

    @property
    def counters(self) -> BrokerCounters: ...

    @property
    def group_configs(self) -> GroupConfigs: ...

    @property
    def transaction_verification(self) -> TransactionVerification: ...


class GroupCoordinator:
    """Every group that this broker coordinates."""

    def __init__(
        self,
        host: GroupHost,
        settings: GroupSettings,
        steady_ms: Callable[[], int],
        assignors: dict[str, Assignor] | None = None,
    ) -> None:
        self._host = host
        self._settings = settings
        self._assignors = assignors
        self._clocks = Clocks(steady_ms, host.runtime.clock_ms)
        self.client_sessions_ms: dict[str, int] = {}
        """Session timeouts of clients that have their own, by client id: a server that acts for other clients sets them
        (HTTP)."""
        self.topic: InternalTopic[GroupCoordinatorShard] = InternalTopic(
            host,
            OFFSETS_TOPIC,
            settings.offsets_topic_num_partitions,
            settings.offsets_topic_replication_factor,
            _TOPIC_CONFIGS,
            self._load,
            coordinator_error,
        )

    def apply_settings(self, settings: GroupSettings) -> None:
        """Apply changed settings from now on."""
        self._settings = settings
        for shard in self.loaded():
            shard.apply_settings(settings)

    def close(self) -> None:
        self.topic.close()

    async def _load(self, partition: Partition) -> GroupCoordinatorShard:
        own_settings = self._host.group_configs.of
        shard = GroupShard(
            self._settings, Topics(self._host.metadata.image), self._assignors, own_settings, self.client_sessions_ms
        )
        await replay(partition, lambda batch: _apply_batch(shard, batch))
        return GroupCoordinatorShard(shard, partition, self._clocks, self._host.counters)

    def loaded(self) -> list[GroupShard]:
        """The shards that are loaded and serve; for inspection."""
        return [one.shard for one in self.topic.loaded()]

    async def ensure_topic(self) -> ErrorCode:
        """Create the internal topic on first use; an error where that is impossible now."""
        return await self.topic.ensure()

    async def ask(self, group_id: str, request: Request) -> Reply:
        """The reply of the shard that has the group; may take as long as a rebalance does."""
        return await (await self.begin(group_id, request))

    async def begin(self, group_id: str, request: Request) -> Answer:
        """The same, decided when this returns: the reply itself may be awaited later."""
        shard = await self.shard(self.partition_of(group_id))
        if isinstance(shard, ErrorCode):
            answer: Answer = asyncio.get_running_loop().create_future()
            answer.set_result(refused(request, shard))
            return answer
        return shard.ask(request)

    async def ask_all(self, request: Request, yielder: CooperativeYield) -> list[Reply]:
        """The replies of every shard that we lead."""
        shards = [await self.shard(number) for number in self.topic.numbers()]
        return [
            await shard.ask(request) async for shard in yielder.over(shards) if isinstance(shard, GroupCoordinatorShard)
        ]

    async def commit_in_transaction(
        self, transactional_id: str, request: CommitTransactionOffsets, client_version: int
    ) -> Reply:
        """The same for offsets that a transaction holds, which its coordinator must know of (KIP-890)."""
        shard = await self.shard(self.partition_of(request.group_id))
        if isinstance(shard, ErrorCode):
            return refused(request, shard)
        who = (request.producer_id, request.producer_epoch)
        verification = self._host.transaction_verification
        outcomes = await verification.pass_first_write(transactional_id, *who, [shard.partition], client_version)
        error = outcomes[shard.partition]
        known = shard.partition.log.producers.states.get(request.producer_id)
        if error is ErrorCode.NONE and known is not None and known.epoch > request.producer_epoch:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return await shard.ask(request) if error is ErrorCode.NONE else refused(request, error)

    async def end_transaction(self, number: int, marker: EndMarker) -> asyncio.Future[None] | ErrorCode | None:
        """Settle the offsets that a transaction holds in one partition."""
        shard = await self.shard(number)
        return shard if isinstance(shard, ErrorCode) else shard.end_transaction(marker)

    async def forget_topic(self, topic: str) -> None:
        """A topic was deleted: delete all offsets committed in it, a few at a time."""
        deleted_ms, yielder = self._clocks.wall_ms(), CooperativeYield()
        for one in self.topic.loaded():
            offsets = one.shard.ledger.offsets
            async for group_id in yielder.over(offsets.group_ids()):
                found = [at for at in offsets.partitions_of(group_id) if at.topic == topic]
                async for piece in yielder.pieces(found):
                    if one.is_serving:
                        one.act(one.shard.forget_deleted(group_id, piece, deleted_ms, self._clocks.now()))

    def partition_of(self, group_id: str) -> int:
        return self.topic.partition_of(group_id)

    async def shard(self, number: int) -> GroupCoordinatorShard | ErrorCode:
        """A shard that serves, loaded if need be."""
        return await self.topic.shard(number)


class Topics:
    """What groups need to know of topics."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def partition_count(self, topic: str) -> int | None:
        found = self._image.topics.get(topic)
        return None if found is None else len(found.partitions)

    @property
    def revision(self) -> int:
        return self._image.revision

    def topic_id(self, topic: str) -> bytes | None:
        found = self._image.topics.get(topic)
        return None if found is None else found.identity.value.bytes

    def topic_name(self, topic_id: bytes) -> str | None:
        found = self._image.topics_by_id.get(TopicId.of(topic_id))
        return None if found is None else found.name

    def names(self) -> Iterable[str]:
        return (name for name, topic in self._image.topics.items() if not topic.is_internal)


class GroupCoordinatorShard(CoordinatorShard[Request, Reply, Decision]):
    """A shard with its partition, and the requests that wait for a rebalance to complete."""

    def __init__(self, shard: GroupShard, partition: Partition, clocks: Clocks, counters: BrokerCounters) -> None:
        super().__init__(shard, partition, clocks)
        self.shard = shard
        self._counters = counters
        self._parked: dict[int, Answer] = {}
        shard.start(clocks.now())
        self.set_timer()

    def end_transaction(self, marker: EndMarker) -> asyncio.Future[None] | None:
        """Write a transaction's marker and settle its offsets; returns the future of its being on disk."""
        durable = self.partition.append_marker(marker)
        self.act(self.shard.end_transaction(marker.producer_id, self.clocks.now(), is_commit=marker.is_commit))
        return durable

    def end(self, error: ErrorCode) -> None:
        self._parked.clear()
        super().end(error)

    def _batch(self, decision: Decision) -> bytearray | None:
        if not decision.records:
            return None
        self._counters.generations += group_events.group_changes(decision.records)
        now_ms = self.clocks.wall_ms()
        records = [Record(number, now_ms, *encode_record(record)) for number, record in enumerate(decision.records)]
        producer = decision.producer
        return encode_batch(
            records,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            is_transactional=producer is not None,
        )

    def _answers(self, decision: Decision, answer: Answer | None) -> list[tuple[Answer, Reply]]:
        releases = []
        if answer is not None:
            assert decision.reply is not None, "a request is answered, or waits for it"
            if isinstance(decision.reply, Parked):
                self._parked[decision.reply.ticket] = answer
            else:
                releases.append((answer, decision.reply))
        return releases + [(self._parked.pop(done.ticket), done.reply) for done in decision.completed]

    def _refusal(self, request: Request, error: ErrorCode) -> Reply:
        return refused(request, error)

    def _coordinator_error(self, append_error: ErrorCode) -> ErrorCode:
        return coordinator_error(append_error)


def _apply_batch(shard: GroupShard, batch: memoryview) -> None:
    header = read_header(batch)
    if header.is_control:
        marker = decode_marker(batch)
        if marker is not None:
            shard.apply_marker(header.producer_id, is_commit=marker.is_commit)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for record in decode_records(batch, _DECODED_BYTES_MAX):
        decoded = decode_record(record.key or b"", record.value)
        if decoded is not None:
            shard.apply(decoded, producer_id)
