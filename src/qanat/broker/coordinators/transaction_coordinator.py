"""The transaction coordinator: one shard per partition of `__transaction_state` that this broker leads.

Shards decide (`transactions.decisions`); `coordinator_shard` appends and answers; then the markers are written. A shard
whose append fails is dropped, its requests are refused, and the next request loads a new one from the log.

A request that would get CONCURRENT_TRANSACTIONS only because the markers of the last transaction are still being
written is decided again when they are: that takes a few milliseconds, where a client would wait for twenty or a
hundred.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from qanat.broker.coordinators.coordinator_host import CoordinatorHost
from qanat.broker.coordinators.coordinator_shard import Clocks, CoordinatorShard
from qanat.broker.coordinators.internal_topic import InternalTopic
from qanat.broker.coordinators.shard_loading import replay
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster.producer_ids import ProducerIdAllocator
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import TRANSACTIONS_TOPIC
from qanat.telemetry.transaction_counters import TransactionCounters
from qanat.transactions.decisions import Decision, Markers, coordinator_error
from qanat.transactions.record_codec import decode_record, encode_record
from qanat.transactions.replies import AddReply, ProducerIdNeeded, ProducerReply, Reply, VerifyReply, refused
from qanat.transactions.requests import (
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersWritten,
    Request,
    with_producer_id,
)
from qanat.transactions.settings import TransactionSettings
from qanat.transactions.shard import TransactionShard
from qanat.wire.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from qanat.broker.coordinators.transaction_markers import MarkerWriter

_DECODED_BYTES_MAX = 64 * 1024 * 1024
_TOPIC_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
_WAIT_S = 0.5
"""How long a request waits for the end of the transaction before it."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
"""Between attempts at a marker that could not be written."""
_NOTHING_TO_END = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Outcomes after which a partition needs no marker; where a later epoch has written, this one's transaction is over."""

Answer = asyncio.Future[Reply]


class TransactionHost(CoordinatorHost, Protocol):
    """What the coordinator of transactions needs of its broker."""

    @property
    def producer_ids(self) -> ProducerIdAllocator: ...

    @property
    def markers(self) -> MarkerWriter: ...


class TransactionCoordinator:
    """Every transactional id that this broker coordinates."""

    def __init__(self, host: TransactionHost, settings: TransactionSettings, steady_ms: Callable[[], int]) -> None:
        self._host = host
        self.settings = settings
        self.counters = TransactionCounters()
        self._clocks = Clocks(steady_ms, host.runtime.clock_ms)
        self.topic: InternalTopic[TransactionCoordinatorShard] = InternalTopic(
            host,
            TRANSACTIONS_TOPIC,
            settings.transaction_state_log_num_partitions,
            settings.transaction_state_log_replication_factor,
            _TOPIC_CONFIGS,
            self._load,
            coordinator_error,
        )

    def close(self) -> None:
        self.topic.close()

    async def _load(self, partition: Partition) -> TransactionCoordinatorShard:
        shard = TransactionShard(self.settings)

        def take(batch: memoryview) -> None:
            for record in decode_records(batch, _DECODED_BYTES_MAX):
                decoded = decode_record(record.key or b"", record.value)
                if decoded is not None:
                    shard.apply(decoded)

        await replay(partition, take)
        return TransactionCoordinatorShard(shard, partition, self._clocks, self._host, self.counters)

    async def ask(self, transactional_id: str, request: Request) -> Reply:
        """The reply of the shard that has the id."""
        if not transactional_id:
            return refused(request, ErrorCode.INVALID_REQUEST)
        shard = await self.topic.shard(self.topic.partition_of(transactional_id))
        if isinstance(shard, ErrorCode):
            return refused(request, shard)
        reply = await self._ask_with_id(shard, request)
        deadline = asyncio.get_running_loop().time() + _WAIT_S
        while _is_early(reply) and await shard.ended(transactional_id, deadline):
            reply = await self._ask_with_id(shard, request)
        return reply

    async def _ask_with_id(self, shard: TransactionCoordinatorShard, request: Request) -> Reply:
        """Allocate a producer id where the shard needs one."""
        reply = await shard.ask(request)
        if not isinstance(reply, ProducerIdNeeded):
            return reply
        assert isinstance(request, InitProducer | EndTransaction)
        try:
            fresh = await self._host.producer_ids.allocate()
        except QanatError as fault:
            return refused(request, fault.code)
        return await shard.ask(with_producer_id(request, fresh))

    async def ask_all(self, request: ListTransactions, yielder: CooperativeYield) -> list[Reply]:
        """The replies of every shard that we lead."""
        shards = [await self.topic.shard(number) for number in self.topic.numbers()]
        serving = [shard for shard in shards if isinstance(shard, TransactionCoordinatorShard)]
        return [await shard.ask(request) async for shard in yielder.over(serving)]


def _is_early(reply: Reply) -> bool:
    """Whether the request came before the last transaction was over."""
    match reply:
        case ProducerReply() | AddReply():
            return reply.error is ErrorCode.CONCURRENT_TRANSACTIONS
        case VerifyReply():
            return ErrorCode.CONCURRENT_TRANSACTIONS in reply.errors.values()
        case _:
            return False


class TransactionCoordinatorShard(CoordinatorShard[Request, Reply, Decision]):
    """A shard with its partition, and the markers under way."""

    def __init__(
        self,
        shard: TransactionShard,
        partition: Partition,
        clocks: Clocks,
        host: TransactionHost,
        counters: TransactionCounters,
    ) -> None:
        super().__init__(shard, partition, clocks)
        self._counters = counters
        self.shard = shard
        self._host = host
        self._ending: dict[str, asyncio.Future[None]] = {}
        """Transactions that are being ended, each with a future for that."""
        self.act(shard.start(clocks.now()))

    async def ended(self, transactional_id: str, deadline: float) -> bool:
        """Wait until the transaction that is being ended is over; False where there is none, or not in time."""
        ending = self._ending.get(transactional_id)
        left_s = deadline - asyncio.get_running_loop().time()
        if ending is None or left_s <= 0:
            return False
        await asyncio.wait([ending], timeout=left_s)
        return ending.done() and self.is_serving

    def end(self, error: ErrorCode) -> None:
        super().end(error)
        ending, self._ending = self._ending, {}
        for over in ending.values():
            over.set_result(None)

    def _batch(self, decision: Decision) -> bytearray | None:
        if not decision.records:
            return None
        now_ms = self.clocks.wall_ms()
        return encode_batch(
            [Record(number, now_ms, *encode_record(record)) for number, record in enumerate(decision.records)]
        )

    def _answers(self, decision: Decision, answer: Answer | None) -> list[tuple[Answer, Reply]]:
        for markers in decision.markers:
            self._ending[markers.transactional_id] = asyncio.get_running_loop().create_future()
        if answer is None:
            return []
        assert decision.reply is not None, "a request is answered"
        return [(answer, decision.reply)]

    def _follow(self, decision: Decision) -> None:
        for markers in decision.markers:
            if markers.is_commit:
                self._counters.committed += 1
            else:
                self._counters.aborted += 1
            self._host.park(self._finish(markers))

    def _refusal(self, request: Request, error: ErrorCode) -> Reply:
        return refused(request, error)

    def _coordinator_error(self, append_error: ErrorCode) -> ErrorCode:
        return coordinator_error(append_error)

    async def _finish(self, markers: Markers) -> None:
        """Write a transaction's markers, for as long as it takes, and then complete it."""
        marker = EndMarker(
            markers.producer_id,
            markers.producer_epoch,
            self.partition.leader_epoch,
            markers.is_commit,
            markers.transaction_version,
        )
        left, pause_s = list(markers.partitions), _FIRST_PAUSE_S
        while self.is_serving:
            outcomes = await self._host.markers.write_everywhere(marker, left)
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in outcomes.values():
                self.end(ErrorCode.NOT_COORDINATOR)
                return
            left = await self._without_deleted([at for at, code in outcomes.items() if code not in _NOTHING_TO_END])
            if not left:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if self.is_serving:
            self.ask(MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch))
            # Where that could not be appended, this shard has ended and has refused all requests that waited.
            if (over := self._ending.pop(markers.transactional_id, None)) is not None:
                over.set_result(None)

    async def _without_deleted(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those whose topics exist. A topic that the image lacks may have been created a moment ago: a marker is given
        up only where the store says that there is no such topic."""
        metadata = self._host.metadata
        unknown = dict.fromkeys(at.topic for at in partitions if at.topic not in metadata.image.topics)
        deleted = [topic for topic in unknown if await metadata.has_deleted(topic)]
        return [at for at in partitions if at.topic not in deleted]
