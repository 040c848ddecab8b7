"""Records to partitions that other brokers lead: written once, also where the leader dies in the middle of it.

Towards the leaders this node is an idempotent producer (KIP-98). Every partition has a lane with a producer id of its
own, whose batches are numbered, so that a batch whose answer did not come is sent again, to whoever leads by then: a
leader that has it answers with the offsets that it got the first time.

Rule 1: one batch of a lane is on its way at a time, and is sent until its fate is known. What comes meanwhile waits and
        leaves together, so that nobody waits for more than the batch before.
Rule 2: a number is used again only where the batch that had it is certainly not in the log. A lane that has to leave
        a batch in doubt, because its time is over, goes on under another producer id.
Rule 3: a leader that misses a number has not got this batch either: everything before it was acknowledged, and lost by
        a leader that alone had it (acks=leader). So it is sent under a new producer id.
Rule 4: without a producer id (the metadata store is away) batches are sent once and never again, which is how far
        a node can go without one.

How many wait is bounded by the requests that the door answers at one time.
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
    from qanat.servers.http.records.record_parsing import Outgoing

_PAUSE_S = 0.05
_GRACE_S = 0.5
_LOOK_LANES = 256
"""After so many new lanes those of deleted topics are forgotten."""
_IDENTITY_S = 2.0
_IDENTITY_AGAIN_S = 5.0
"""How long after a failure nobody asks for a producer id."""

_ELSEWHERE = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Certainly not written: there is no leader yet, or it does not know that it is."""
_IN_DOUBT = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Perhaps written: a leader says NOT_LEADER_OR_FOLLOWER also of what it appended, when it is replaced."""
_LACKING = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS})
"""Not written now; what was sent before may still be there."""
_OUT_OF_STEP = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The leader does not know what we wrote before: certainly not written (rule 3)."""
NOT_KNOWN = "whether the records were written is not known: repeat with an Idempotency-Key"


class _Parcel:
    """Records of one request for one partition, and who waits for what becomes of them."""

    __slots__ = ("acks", "deadline", "done", "records", "size")

    def __init__(self, records: Sequence[Outgoing], acks: int, deadline: Deadline) -> None:
        self.records = records
        self.acks = acks
        self.deadline = deadline
        self.size = sum(map(size_of, records))
        self.done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()

    def settle(self, results: list[Result]) -> None:
        if not self.done.done():
            self.done.set_result(results)


class Forwarding:
    """All lanes of this node."""

    def __init__(self, asking: KafkaGateway) -> None:
        self.asking = asking
        self._lanes: dict[TopicPartition, Lane] = {}
        self._ask_again_at = 0.0

    async def write(self, at: TopicPartition, records: Sequence[Outgoing], acks: int) -> list[Result]:
        """What became of records of one partition, at most a batch of them; whoever asks may write there."""
        lane = self._lanes.get(at)
        if lane is None:
            if len(self._lanes) % _LOOK_LANES == _LOOK_LANES - 1:
                self._forget_deleted()
            lane = self._lanes[at] = Lane(self, at)
        return await lane.write(records, acks)

    def _forget_deleted(self) -> None:
        topics = self.asking.broker.metadata.image.topics
        self._lanes = {at: lane for at, lane in self._lanes.items() if lane.is_busy or at.topic in topics}

    async def identity(self) -> int | None:
        """A producer id that nobody has had; None where none is to be had now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._ask_again_at:
            return None
        try:
            async with asyncio.timeout(_IDENTITY_S):
                response: InitProducerIdResponse = await self.asking.ask(
                    self.asking.nobody, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, INT32_MAX)
                )
        except (TimeoutError, QanatError):
            is_given = False
        else:
            is_given = response.error_code == ErrorCode.NONE
        if not is_given:
            self._ask_again_at = loop.time() + _IDENTITY_AGAIN_S
            return None
        return response.producer_id


class Lane:
    """The way to one partition."""

    def __init__(self, forwarding: Forwarding, at: TopicPartition) -> None:
        self._forwarding = forwarding
        self._asking = forwarding.asking
        self._at = at
        self._waiting: deque[_Parcel] = deque()
        self._producer_id: int | None = None
        self._sequence = 0
        self.is_busy = False

    async def write(self, records: Sequence[Outgoing], acks: int) -> list[Result]:
        parcel = _Parcel(records, acks, Deadline.after(self._asking.timeout_s))
        self._waiting.append(parcel)
        if not self.is_busy:
            self.is_busy = True
            # It goes on when the caller hangs up: a number that was used must be seen to its end.
            self._asking.broker.park(self._run())
        done, _ = await asyncio.wait([parcel.done], timeout=parcel.deadline.left_seconds + _GRACE_S)
        if not done:
            return [self._problem(ErrorCode.REQUEST_TIMED_OUT, f"it took too long; {NOT_KNOWN}")] * len(records)
        return parcel.done.result()

    async def _run(self) -> None:
        try:
            while self._waiting:
                first = self._waiting.popleft()
                if first.deadline.is_over:
                    late = self._problem(ErrorCode.REQUEST_TIMED_OUT, "not written: others before it took too long")
                    first.settle([late] * len(first.records))
                else:
                    await self._deliver(self._together(first))
        finally:
            self.is_busy = False

    def _together(self, first: _Parcel) -> list[_Parcel]:
        """Those who leave with the first."""
        parcels, size = [first], first.size
        while self._waiting:
            after = self._waiting[0]
            if after.acks != first.acks or size + after.size > BATCH_BYTES:
                break
            size += after.size
            parcels.append(self._waiting.popleft())
        return parcels

    async def _deliver(self, parcels: list[_Parcel]) -> None:
        """See parcels to their end, together or, where they are refused, each for itself."""
        records = [record for parcel in parcels for record in parcel.records]
        deadline = max((parcel.deadline for parcel in parcels), key=lambda one: one.at)
        outcome = await self._write(records, parcels[0].acks, deadline)
        if isinstance(outcome, int):
            for parcel in parcels:
                parcel.settle(list(range(outcome, outcome + len(parcel.records))))
                outcome += len(parcel.records)
        elif len(records) == 1 or outcome.status >= 500:
            for parcel in parcels:
                parcel.settle([outcome] * len(parcel.records))
        elif len(parcels) > 1:
            for parcel in parcels:
                await self._deliver([parcel])
        else:
            (parcel,) = parcels
            parcel.settle([await self._write([record], parcel.acks, deadline) for record in records])

    async def _write(self, records: Sequence[Outgoing], acks: int, deadline: Deadline) -> Result:
        """One batch; its first offset, or why it has none."""
        batch = await self._signed(records)
        is_in_doubt = False
        while True:
            code, answer = await self._attempt(batch, acks, deadline)
            if code is ErrorCode.NONE:
                self._sequence = (self._sequence + len(records)) & INT32_MAX
                return int(answer.base_offset)
            if code in _OUT_OF_STEP and self._producer_id is not None and not deadline.is_over:
                self._producer_id, is_in_doubt = None, False
                batch = await self._signed(records)
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
        if code in _ELSEWHERE and not self._asking.is_known(*self._at):
            return False
        if not is_in_doubt:
            return code in _ELSEWHERE
        return self._producer_id is not None and (code in _IN_DOUBT or code in _ELSEWHERE or code in _LACKING)

    async def _signed(self, records: Sequence[Outgoing]) -> bytearray:
        """A batch with the lane's next number; where no producer id is to be had, without."""
        batch = encoded(records)
        if self._producer_id is None:
            self._producer_id, self._sequence = await self._forwarding.identity(), 0
        if self._producer_id is not None:
            set_producer(batch, self._producer_id, 0, self._sequence, is_transactional=False)
        return batch

    async def _attempt(
        self, batch: bytearray, acks: int, deadline: Deadline
    ) -> tuple[ErrorCode, PartitionProduceResponse]:
        """Ask whoever leads now."""
        leader = self._asking.leader(*self._at)
        if leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE, PartitionProduceResponse(error_message="no replica may lead it now")
        # Without an answer we would have none to give either: acks=0 is asked for as acks=1.
        data = PartitionProduceData(self._at.partition, memoryview(batch))
        topics = [TopicProduceData(self._at.topic, partition_data=[data])]
        request = ProduceRequest(None, acks or 1, max(1, deadline.left_ms), topics)
        asked = self._asking.ask_leader(
            self._asking.nobody, ApiKey.PRODUCE, request, leader, self._at.topic, (self._at.partition,)
        )
        try:
            response: ProduceResponse = await deadline.bound(asked, f"an answer of broker {leader}")
        except QanatError as fault:
            return fault.code, PartitionProduceResponse(error_message=str(fault))
        answer = response.responses[0].partition_responses[0]
        return error_code(answer.error_code), answer

    def _problem(self, code: ErrorCode, message: str | None) -> Problem:
        return problem_of(code, f"topic {self._at.topic} partition {self._at.partition}", message)
