"""The shell around the groups' ledger: one shard per partition of `__consumer_offsets` that we lead.

It does what `groups.decisions` asks of a shell: append a decision's records as
one batch, wait until they are durable, then answer; and tick when a deadline
has come. A shard whose append fails is dropped, its askers are refused, and a
new one is loaded from the log when somebody next asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from qanat.broker import told_of_groups
from qanat.broker.breaths import Breaths
from qanat.broker.internal_topic import Loads, not_loadable
from qanat.broker.partition import EndMarker, Partition
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_names import OFFSETS_TOPIC
from qanat.cluster.topics import CreateTopic
from qanat.groups.assignors.assignor import Assignor
from qanat.groups.decisions import Decision, Parked, coordinator_error
from qanat.groups.record_codec import decode_record, encode_record
from qanat.groups.replies import Reply, refused
from qanat.groups.requests import CommitTransactionOffsets, Request
from qanat.groups.settings import GroupSettings
from qanat.groups.shard import GroupShard
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import NO_PRODUCER_ID, TopicId
from qanat.model.moment import Now
from qanat.model.placement import partition_of
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.wire.batch_header import read_header, split_batches
from qanat.wire.control import decode_marker
from qanat.wire.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_LOAD_BYTES = 4 * 1024 * 1024
_DECODED_BYTES_MAX = 64 * 1024 * 1024
_TOPIC_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024), "compression.type": "producer"}

Answer = asyncio.Future[Reply]


class GroupCoordinator:
    """Every group that this broker coordinates."""

    def __init__(
        self,
        broker: Broker,
        settings: GroupSettings,
        steady_ms: Callable[[], int],
        assignors: dict[str, Assignor] | None = None,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._assignors = assignors
        self._steady_ms = steady_ms
        self._shards: dict[int, HostedShard] = {}
        self._loads: Loads[HostedShard] = Loads()
        self._creating = asyncio.Lock()

    def obey(self, settings: GroupSettings) -> None:
        """Take over changed settings, with effect from now on."""
        self._settings = settings
        for shard in self.loaded():
            shard.obey(settings)

    def start(self) -> None:
        """Load what there is without being asked: members of groups must be missed when they are silent."""
        self._broker.park(self._load_all())

    async def _load_all(self) -> None:
        for at, partition in list(self._broker.partitions.items()):
            if at.topic == OFFSETS_TOPIC and partition.log.end_offset > 0:
                await self.shard(at.partition)

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def loaded(self) -> list[GroupShard]:
        """The shards that somebody has asked for and that serve; for looking at."""
        return [hosted.shard for hosted in self._shards.values() if hosted.is_serving]

    async def ensure_topic(self) -> ErrorCode:
        """Create the internal topic on first use; an error where that is impossible now."""
        async with self._creating:
            if OFFSETS_TOPIC in self._broker.metadata.image.topics:
                return ErrorCode.NONE
            request = CreateTopic(
                OFFSETS_TOPIC,
                self._broker.new_topic_id(),
                partitions=self._settings.offsets_topic_num_partitions,
                configs=_TOPIC_CONFIGS,
                is_internal=True,
            )
            outcome = await self._broker.create_topic(request)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if isinstance(outcome, Rejection) else ErrorCode.NONE

    async def ask(self, group_id: str, request: Request) -> Reply:
        """The answer of the shard that has the group; may take as long as a rebalance does."""
        return await (await self.begin(group_id, request))

    async def begin(self, group_id: str, request: Request) -> Answer:
        """The same, decided when this returns: the answer itself may be waited for later."""
        shard = await self.shard(self.partition_of(group_id))
        if isinstance(shard, ErrorCode):
            answer: Answer = asyncio.get_running_loop().create_future()
            answer.set_result(refused(request, shard))
            return answer
        return shard.ask(request)

    async def ask_all(self, request: Request, breaths: Breaths) -> list[Reply]:
        """The answers of every shard that we lead."""
        count = len(self._broker.metadata.image.topics[OFFSETS_TOPIC].partitions) if self._has_topic() else 0
        shards = [await self.shard(number) for number in range(count)]
        return [await shard.ask(request) async for shard in breaths.over(shards) if isinstance(shard, HostedShard)]

    async def commit_in_transaction(
        self, transactional_id: str, request: CommitTransactionOffsets, client_version: int
    ) -> Reply:
        """The same for offsets that a transaction holds, which its coordinator must know of (KIP-890)."""
        shard = await self.shard(self.partition_of(request.group_id))
        if isinstance(shard, ErrorCode):
            return refused(request, shard)
        who = (request.producer_id, request.producer_epoch)
        gate = self._broker.transaction_gate
        outcomes = await gate.pass_first_write(transactional_id, *who, [shard.partition], client_version)
        error = outcomes[shard.partition]
        known = shard.partition.log.producers.states.get(request.producer_id)
        if error is ErrorCode.NONE and known is not None and known.epoch > request.producer_epoch:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return await shard.ask(request) if error is ErrorCode.NONE else refused(request, error)

    async def end_transaction(self, number: int, marker: EndMarker) -> asyncio.Future[None] | ErrorCode | None:
        """Settle the offsets that a transaction holds in one partition."""
        shard = await self.shard(number)
        return shard if isinstance(shard, ErrorCode) else shard.end_transaction(marker)

    def partition_of(self, group_id: str) -> int:
        return partition_of(group_id, self._settings.offsets_topic_num_partitions)

    def _has_topic(self) -> bool:
        return OFFSETS_TOPIC in self._broker.metadata.image.topics

    async def shard(self, number: int) -> HostedShard | ErrorCode:
        """A shard that serves, loaded if need be; everybody who asks meanwhile waits for the same load."""
        hosted = self._shards.get(number)
        if hosted is not None and hosted.is_serving:
            return hosted
        return await self._loads.wait(number, self._load)

    async def _load(self, number: int) -> HostedShard | ErrorCode:
        if (error := await self.ensure_topic()) is not ErrorCode.NONE:
            return error
        partition = self._broker.partition(OFFSETS_TOPIC, number)
        if isinstance(partition, ErrorCode):
            return not_loadable(partition)
        shard = GroupShard(self._settings, Topics(self._broker), self._assignors)
        try:
            await _replay(shard, partition)
        except QanatError as fault:
            return coordinator_error(fault.code)
        self._shards[number] = HostedShard(
            shard, partition, self._steady_ms, self._broker.runtime.clock_ms, self._broker.counters
        )
        return self._shards[number]


class Topics:
    """What groups must know of topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def partition_count(self, topic: str) -> int | None:
        found = self._broker.metadata.image.topics.get(topic)
        return None if found is None else len(found.partitions)

    @property
    def revision(self) -> int:
        return self._broker.metadata.image.revision

    def topic_id(self, topic: str) -> bytes | None:
        found = self._broker.metadata.image.topics.get(topic)
        return None if found is None else found.identity.value.bytes

    def topic_name(self, topic_id: bytes) -> str | None:
        found = self._broker.metadata.image.topics_by_id.get(TopicId.of(topic_id))
        return None if found is None else found.name

    def names(self) -> Iterable[str]:
        return (name for name, topic in self._broker.metadata.image.topics.items() if not topic.is_internal)


class HostedShard:
    """A shard with its partition, its clock, and those who wait for its answers."""

    def __init__(
        self,
        shard: GroupShard,
        partition: Partition,
        steady_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        counters: BrokerCounters,
    ) -> None:
        self.shard = shard
        self._counters = counters
        self.partition = partition
        self._steady_ms = steady_ms
        self._wall_ms = wall_ms
        self._parked: dict[int, tuple[Request, Answer]] = {}
        self._unreleased: dict[Answer, Request] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.is_serving = True
        shard.start(self._now())
        self._set_timer()

    def _now(self) -> Now:
        return Now(self._steady_ms(), self._wall_ms())

    def close(self) -> None:
        """Serve no more; whoever waits is told to look for the coordinator again."""
        self._end(ErrorCode.NOT_COORDINATOR)

    def ask(self, request: Request) -> Answer:
        """Decide now; the answer comes when it is durable, or when a rebalance is over."""
        answer: Answer = asyncio.get_running_loop().create_future()
        if not self.is_serving:
            answer.set_result(refused(request, ErrorCode.NOT_COORDINATOR))
            return answer
        decision = self.shard.decide(request, self._now())
        self._unreleased[answer] = request
        if isinstance(decision.reply, Parked):
            self._parked[decision.reply.ticket] = (request, answer)
        self._act(decision, None if isinstance(decision.reply, Parked) else answer)
        return answer

    def end_transaction(self, marker: EndMarker) -> asyncio.Future[None] | None:
        """Write a transaction's marker and settle its offsets; returns what its being on disk waits for."""
        durable = self.partition.append_marker(marker)
        decision = self.shard.end_transaction(marker.producer_id, self._now(), is_commit=marker.is_commit)
        self._act(decision, None)
        return durable

    def _tick(self) -> None:
        self._timer = None
        if self.is_serving:
            self._act(self.shard.tick(self._now()), None)

    def _act(self, decision: Decision, answer: Answer | None) -> None:
        """Append, then release the answers when everything decided so far is durable."""
        try:
            durable = self._append(decision)
        except QanatError as fault:
            self._end(coordinator_error(fault.code))
            return
        releases = [(answer, decision.reply)] if answer is not None else []
        releases += [(self._parked.pop(done.ticket)[1], done.reply) for done in decision.completed]

        def release(flushed: asyncio.Future[None] | None = None) -> None:
            fault = flushed.exception() if flushed is not None and not flushed.cancelled() else None
            if fault is not None:
                code = fault.code if isinstance(fault, QanatError) else ErrorCode.UNKNOWN_SERVER_ERROR
                self._end(coordinator_error(code))
                return
            for waiting, reply in releases:
                assert not isinstance(reply, Parked | None)
                self._unreleased.pop(waiting, None)
                if not waiting.done():
                    waiting.set_result(reply)

        if durable is None:
            release()
        else:
            durable.add_done_callback(release)
        self._set_timer()

    def _append(self, decision: Decision) -> asyncio.Future[None] | None:
        if not decision.records:
            return self.partition.when_durable()
        self._counters.generations += told_of_groups.group_changes(decision.records)
        now_ms = self._wall_ms()
        records = [Record(number, now_ms, *encode_record(record)) for number, record in enumerate(decision.records)]
        producer = decision.producer
        batch = encode_batch(
            records,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            is_transactional=producer is not None,
        )
        return self.partition.append_own(batch).durable

    def _set_timer(self) -> None:
        deadline_ms = self.shard.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None and self.is_serving:
            delay_s = max(deadline_ms - self._steady_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _end(self, error: ErrorCode) -> None:
        """Refuse everybody whose answer was not released; nothing here can be trusted any more."""
        self.is_serving = False
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._unreleased = self._unreleased, {}
        self._parked.clear()
        for answer, request in waiting.items():
            if not answer.done():
                answer.set_result(refused(request, error))


async def _replay(shard: GroupShard, partition: Partition) -> None:
    """Read the partition from its start and let the shard take every record."""
    log, breaths = partition.log, Breaths()
    offset = log.log_start_offset
    while offset < log.end_offset:
        part = await partition.read(offset, _LOAD_BYTES, log.end_offset)
        async for batch in breaths.over(batch for view in part.views() for batch in split_batches(view)):
            _apply_batch(shard, batch)
        offset = part.next_offset


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
