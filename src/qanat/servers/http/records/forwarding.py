"""Forwarding of records to partitions that other brokers lead: written once, also where the leader dies in between.

Towards the leaders this node is an idempotent producer (KIP-98). Every partition has a producer with an id of its own,
whose batches are numbered. A batch without an answer is sent again, to the leader of that time; a leader that
has it answers with the offsets of the first time.

Rule 1: a producer has one batch in flight, and sends it until its outcome is known. Records that arrive meanwhile wait
        and leave together, so that none waits for more than the batch before.
Rule 2: a sequence number is used again only where the batch that had it is certainly not in the log. A producer that
        has to leave a batch in doubt, because its time is over, continues under another producer id.
Rule 3: a leader that misses a number does not have this batch either: everything before it was acknowledged, and lost
        by a leader that alone had it (acks=leader). So it is sent under a new producer id.
Rule 4: without a producer id (the metadata store is away) batches are sent once and never again: a node cannot do more
        without one.

The requests that HTTP serves at one time bound how many records wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.connection.deadline import Deadline
from qanat.connection.faults import error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.batching import BATCH_BYTES, Result, encoded, size_of
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import INT32_MAX, set_producer

if TYPE_CHECKING:
    from qanat.servers.http.kafka_gateway import KafkaGateway
    from qanat.servers.http.records.record_parsing import ProducerRecord

_PAUSE_S = 0.05
_GRACE_S = 0.5
_FORGET_EVERY = 256
"""After so many new producers those of deleted topics are forgotten."""
_IDENTITY_S = 2.0
_IDENTITY_AGAIN_S = 5.0
"""How long after a failure no producer id is requested."""

_ELSEWHERE = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Certainly not written: there is no leader yet, or it does not know that it leads."""
_IN_DOUBT = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Perhaps written: a replaced leader answers NOT_LEADER_OR_FOLLOWER also for a batch that it appended."""
_LACKING = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS})
"""Not written now; an earlier attempt may be."""
_OUT_OF_STEP = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The leader does not know our earlier batches: certainly not written (rule 3)."""
NOT_KNOWN = "whether the records were written is not known: repeat with an Idempotency-Key"


class _PendingRecords:
    """Records of one request for one partition, and the future of their results."""

    __slots__ = ("acks", "deadline", "done", "records", "size")

    def __init__(self, records: Sequence[ProducerRecord], acks: int, deadline: Deadline) -> None:
        self.records = records
        self.acks = acks
        self.deadline = deadline
        self.size = sum(map(size_of, records))
        self.done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()

    def settle(self, results: list[Result]) -> None:
        if not self.done.done():
            self.done.set_result(results)


class Forwarding:
    """The producers of this node, by partition."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self._producers: dict[TopicPartition, ForwardingProducer] = {}
        self._retry_identity_at = 0.0

    async def write(self, at: TopicPartition, records: Sequence[ProducerRecord], acks: int) -> list[Result]:
        """The results of records of one partition, at most a batch; the caller is already authorized."""
        producer = self._producers.get(at)
        if producer is None:
            if len(self._producers) % _FORGET_EVERY == _FORGET_EVERY - 1:
                self._forget_deleted()
            producer = self._producers[at] = ForwardingProducer(self, at)
        return await producer.write(records, acks)

    def _forget_deleted(self) -> None:
        topics = self.gateway.broker.metadata.image.topics
        self._producers = {
            at: producer for at, producer in self._producers.items() if producer.is_busy or at.topic in topics
        }

    async def new_producer_id(self) -> int | None:
        """A new producer id; None where none is available now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_identity_at:
            return None
        try:
            async with asyncio.timeout(_IDENTITY_S):
                response: InitProducerIdResponse = await self.gateway.call(
                    self.gateway.own_caller, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, INT32_MAX)
                )
        except (TimeoutError, QanatError):
            is_allocated = False
        else:
            is_allocated = response.error_code == ErrorCode.NONE
        if not is_allocated:
            self._retry_identity_at = loop.time() + _IDENTITY_AGAIN_S
            return None
        return response.producer_id


class ForwardingProducer:
    """The idempotent producer of one partition."""

    def __init__(self, forwarding: Forwarding, at: TopicPartition) -> None:
        self._forwarding = forwarding
        self._gateway = forwarding.gateway
        self._at = at
        self._waiting: deque[_PendingRecords] = deque()
        self._producer_id: int | None = None
        self._sequence = 0
        self.is_busy = False

    async def write(self, records: Sequence[ProducerRecord], acks: int) -> list[Result]:
        pending = _PendingRecords(records, acks, Deadline.after(self._gateway.timeout_s))
        self._waiting.append(pending)
        if not self.is_busy:
            self.is_busy = True
            # It goes on when the client disconnects: the outcome of a used sequence number must become known.
            self._gateway.broker.park(self._run())
        done, _ = await asyncio.wait([pending.done], timeout=pending.deadline.left_seconds + _GRACE_S)
        if not done:
            return [self._problem(ErrorCode.REQUEST_TIMED_OUT, f"it took too long; {NOT_KNOWN}")] * len(records)
        return pending.done.result()

    async def _run(self) -> None:
        try:
            while self._waiting:
                first = self._waiting.popleft()
                if first.deadline.is_over:
                    late = self._problem(ErrorCode.REQUEST_TIMED_OUT, "not written: others before it took too long")
                    first.settle([late] * len(first.records))
                else:
                    await self._deliver(self._coalesce(first))
        finally:
            self.is_busy = False

    def _coalesce(self, first: _PendingRecords) -> list[_PendingRecords]:
        """The records that leave with the first."""
        pendings, size = [first], first.size
        while self._waiting:
            after = self._waiting[0]
            if after.acks != first.acks or size + after.size > BATCH_BYTES:
                break
            size += after.size
            pendings.append(self._waiting.popleft())
        return pendings

    async def _deliver(self, pendings: list[_PendingRecords]) -> None:
        """Deliver records together or, where they are refused, one request at a time."""
        records = [record for pending in pendings for record in pending.records]
        deadline = max((pending.deadline for pending in pendings), key=lambda one: one.at)
        outcome = await self._write(records, pendings[0].acks, deadline)
        if isinstance(outcome, int):
            for pending in pendings:
                pending.settle(list(range(outcome, outcome + len(pending.records))))
                outcome += len(pending.records)
        elif len(records) == 1 or outcome.status >= 500:
            for pending in pendings:
                pending.settle([outcome] * len(pending.records))
        elif len(pendings) > 1:
            for pending in pendings:
                await self._deliver([pending])
        else:
            (pending,) = pendings
            pending.settle([await self._write([record], pending.acks, deadline) for record in records])

    async def _write(self, records: Sequence[ProducerRecord], acks: int, deadline: Deadline) -> Result:
        """Write one batch; its first offset, or its problem."""
        batch = await self._numbered(records)
        is_in_doubt = False
        while True:
            code, answer = await self._send_once(batch, acks, deadline)
            if code is ErrorCode.NONE:
                self._sequence = (self._sequence + len(records)) & INT32_MAX
                return int(answer.base_offset)
            if code in _OUT_OF_STEP and self._producer_id is not None and not deadline.is_over:
                self._producer_id, is_in_doubt = None, False
                batch = await self._numbered(records)
                continue
            is_in_doubt = is_in_doubt or code in _IN_DOUBT
            if not self._may_repeat(code, is_in_doubt=is_in_doubt) or deadline.left_seconds <= _PAUSE_S:
                break
            await deadline.pause(_PAUSE_S)
        if not is_in_doubt:
            return self._problem(code, answer.error_message)
        self._producer_id = None
        reason = answer.error_message or code.name.lower().replace("_", " ")
        return self._problem(code if code in _IN_DOUBT else ErrorCode.REQUEST_TIMED_OUT, f"{reason}; {NOT_KNOWN}")

    def _may_repeat(self, code: ErrorCode, *, is_in_doubt: bool) -> bool:
        if code in _ELSEWHERE and not self._gateway.is_known(*self._at):
            return False
        if not is_in_doubt:
            return code in _ELSEWHERE
        return self._producer_id is not None and (code in _IN_DOUBT or code in _ELSEWHERE or code in _LACKING)

    async def _numbered(self, records: Sequence[ProducerRecord]) -> bytearray:
        """A batch with the next sequence number; without one where no producer id is available."""
        batch = encoded(records)
        if self._producer_id is None:
            self._producer_id, self._sequence = await self._forwarding.new_producer_id(), 0
        if self._producer_id is not None:
            set_producer(batch, self._producer_id, 0, self._sequence, is_transactional=False)
        return batch

    async def _send_once(
        self, batch: bytearray, acks: int, deadline: Deadline
    ) -> tuple[ErrorCode, PartitionProduceResponse]:
        """Send the batch to the current leader."""
        leader = self._gateway.leader(*self._at)
        if leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE, PartitionProduceResponse(error_message="no replica may lead it now")
        # Without an answer there would be none for the client: acks=0 is sent as acks=1.
        data = PartitionProduceData(self._at.partition, memoryview(batch))
        topics = [TopicProduceData(self._at.topic, partition_data=[data])]
        request = ProduceRequest(None, acks or 1, max(1, deadline.left_ms), topics)
        call = self._gateway.call_leader(
            self._gateway.own_caller, ApiKey.PRODUCE, request, leader, self._at.topic, (self._at.partition,)
        )
        try:
            response: ProduceResponse = await deadline.bound(call, f"an answer of broker {leader}")
        except QanatError as fault:
            return fault.code, PartitionProduceResponse(error_message=str(fault))
        answer = response.responses[0].partition_responses[0]
        return error_code(answer.error_code), answer

    def _problem(self, code: ErrorCode, message: str | None) -> Problem:
        return problem_of(code, f"topic {self._at.topic} partition {self._at.partition}", message)
