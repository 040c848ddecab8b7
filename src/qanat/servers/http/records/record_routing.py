"""Routing of records: each to its partition, batches of one turn of the loop, and a result for each record.

Where this broker leads, records go straight to the log (`api.records.append`); where another does, `forwarding` sends
them. Records that arrive in the same turn of the loop for the same partition leave as one batch: a hundred clients with
one record each cost the log one append, and none waits longer for it.

Rule 1: a refused batch is tried record by record, so that one bad record does not fail the others.
Rule 2: every record has its own result: an offset, or a problem.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qanat.api.records.append import ALL, LEADER, NONE, append, find_writable
from qanat.broker.replicas.durable_acknowledgement import DurableAcknowledgement, acknowledged
from qanat.broker.replicas.partition import Partition, Written
from qanat.broker.runtime.ack_timeouts import AckTimeouts
from qanat.broker.runtime.cooperative_yield import FEW_ROWS
from qanat.connection.deadline import Deadline
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.batching import BATCH_BYTES, Result, batches_of, encoded, size_of
from qanat.servers.http.records.forwarding import NOT_KNOWN, Forwarding
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.key_hash import partition_of

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.kafka_gateway import KafkaGateway
    from qanat.servers.http.records.record_parsing import ProducerRecord

ACKS = {"all": ALL, "leader": LEADER, "none": NONE}
MOVED = -1
_PAUSE_S = 0.05
_NOT_WRITTEN = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
"""There is no leader yet: nothing was written. A single broker is never replaced as a leader."""

Waiting = tuple["ProducerRecord", asyncio.Future[int]]
"""A record, and the future of its offset."""


class RecordBatcher:
    """Single records for one partition: those of one turn of the loop leave together."""

    __slots__ = ("_ack_timeouts", "_bytes", "_loop", "_partition", "_timeout_s", "_waiting")

    def __init__(self, partition: Partition, ack_timeouts: AckTimeouts, timeout_s: float) -> None:
        self._partition = partition
        self._ack_timeouts = ack_timeouts
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Waiting] = []
        self._bytes = 0

    def add(self, record: ProducerRecord) -> asyncio.Future[int]:
        """Its offset, once durable; `MOVED` where it was not written because another broker leads by now."""
        size = size_of(record)
        if self._bytes + size > BATCH_BYTES and self._waiting:
            self._flush()
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._bytes += size
        done: asyncio.Future[int] = self._loop.create_future()
        self._waiting.append((record, done))
        return done

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if waiting:
            self._append(waiting)

    def _append(self, waiting: list[Waiting]) -> None:
        try:
            written = self._partition.append_now(encoded([record for record, _ in waiting]))
        except QanatError as fault:
            self._refused(waiting, fault)
            return
        if written is None:
            self._loop.create_task(self._append_slowly(waiting))
        else:
            self._acknowledge(written, waiting)

    async def _append_slowly(self, waiting: list[Waiting]) -> None:
        try:
            written = await self._partition.append(encoded([record for record, _ in waiting]))
        except QanatError as fault:
            self._refused(waiting, fault)
        else:
            self._acknowledge(written, waiting)

    def _acknowledge(self, written: Written, waiting: list[Waiting]) -> None:
        """Complete the futures of a batch when it is durable, or when it took too long."""

        def complete() -> None:
            for offset, (_, done) in enumerate(waiting, written.base_offset):
                if not done.done():
                    done.set_result(offset)

        if written.durable is None:
            complete()
        else:
            pending = {written.durable: waiting}
            DurableAcknowledgement(pending, _fail, complete, self._ack_timeouts, self._timeout_s)

    def _refused(self, waiting: list[Waiting], fault: QanatError) -> None:
        if len(waiting) > 1:
            for one in waiting:
                self._append([one])
        elif not waiting[0][1].done():
            if fault.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                waiting[0][1].set_result(MOVED)
            else:
                waiting[0][1].set_exception(fault)


class RecordRouter:
    """Routes callers' records."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._broker = gateway.broker
        self._forwarding = Forwarding(gateway)
        self._batchers: dict[Partition, RecordBatcher] = {}
        self._turns: dict[str, int] = {}

    # Partitions

    def choose_partition(self, record: ProducerRecord, partitions: int) -> None:
        """Choose a record's partition; raises a problem where it names an unknown one."""
        if record.partition < 0:
            if record.key is not None:
                record.partition = partition_of(record.key, partitions)
            else:
                record.partition = self.next_turns(record.topic, 1) % partitions
        elif record.partition >= partitions:
            raise Problem(
                404,
                f"topic {record.topic} has no partition {record.partition}: it has {partitions}, "
                f"numbered 0 to {partitions - 1}",
                error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )

    def next_turns(self, topic: str, count: int) -> int:
        """The first of `count` turns, for records without a key."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + count
        return turn

    def give_back_turn(self, topic: str) -> None:
        """A turn was not used: nothing was written, and its record chooses a partition again."""
        self._turns[topic] -= 1

    # One record

    def find_led(
        self, caller: HttpCaller, topic: str, number: int, acks: int, *, is_bulk: bool = False
    ) -> Partition | None:
        """The partition to append to directly; None where a request must be made.

        While a batch waits for followers, another replica may become leader. `forwarding` sends it there again; only
        records in bulk are too many for one batch at a time.
        """
        if not self._gateway.may_append_here(caller, topic):
            return None
        found = find_writable(self._broker, topic, number, acks)
        if found is None or acks != ALL or found.leader is None:
            return found
        return found if is_bulk else None

    async def write_one(self, caller: HttpCaller, record: ProducerRecord, acks: int) -> int:
        """The offset of one record; -1 with acks=none."""
        partition = self.find_led(caller, record.topic, record.partition, acks)
        if partition is not None:
            return await self.append_one(caller, partition, record, acks)
        return await self._write_by_request(caller, record, acks)

    async def append_one(self, caller: HttpCaller, partition: Partition, record: ProducerRecord, acks: int) -> int:
        """The same for a record whose partition `find_led` found."""
        if acks != ALL:
            return await self._append_unacknowledged(partition, record, acks)
        batcher = self._batchers.get(partition)
        if batcher is None:
            batcher = self._batcher(partition)
        try:
            offset = await batcher.add(record)
        except QanatError as fault:
            raise _problem(fault.code, record, str(fault)) from None
        return offset if offset != MOVED else await self._write_by_request(caller, record, acks)

    async def _write_by_request(self, caller: HttpCaller, record: ProducerRecord, acks: int) -> int:
        (result,) = await self.write(caller, [record], acks)
        if isinstance(result, Problem):
            raise result
        return result

    def _batcher(self, partition: Partition) -> RecordBatcher:
        if len(self._batchers) > len(self._broker.partitions):
            self._batchers = {one: batcher for one, batcher in self._batchers.items() if not one.is_retired}
        timeouts, timeout_s = self._broker.ack_timeouts, self._gateway.timeout_s
        batcher = self._batchers[partition] = RecordBatcher(partition, timeouts, timeout_s)
        return batcher

    async def _append_unacknowledged(self, partition: Partition, record: ProducerRecord, acks: int) -> int:
        try:
            written = await append(partition, encoded([record]))
        except QanatError as fault:
            raise _problem(fault.code, record, str(fault)) from None
        return written.base_offset if acks else -1

    # Many records

    async def write(self, caller: HttpCaller, records: Sequence[ProducerRecord], acks: int) -> list[Result]:
        """The result of each record, in order. Their partitions are chosen already."""
        results: list[Result] = [-1] * len(records)
        rows: dict[TopicPartition, list[int]] = {}
        for number, record in enumerate(records):
            rows.setdefault(TopicPartition(record.topic, record.partition), []).append(number)
            if number % FEW_ROWS == FEW_ROWS - 1:
                await asyncio.sleep(0)
        await asyncio.gather(
            *(self._write_rows(caller, at, numbers, records, results, acks) for at, numbers in rows.items())
        )
        return results

    async def _write_rows(
        self,
        caller: HttpCaller,
        at: TopicPartition,
        numbers: list[int],
        records: Sequence[ProducerRecord],
        results: list[Result],
        acks: int,
    ) -> None:
        partition = self.find_led(caller, at.topic, at.partition, acks)
        written: list[tuple[list[int], Written]] = []
        for first, end in batches_of(numbers, records):
            chosen = numbers[first:end]
            if partition is None:
                await self._append_by_request(caller, at, chosen, records, results, acks)
                continue
            batch = encoded([records[number] for number in chosen])
            try:
                written.append((chosen, await append(partition, batch)))
            except QanatError:
                # Refused as a whole: a request for each record finds the bad ones.
                await self._append_by_request(caller, at, chosen, records, results, acks)
            await asyncio.sleep(0)
        for chosen, one in written:
            for offset, number in enumerate(chosen, one.base_offset):
                results[number] = offset
        if acks == ALL:
            await self.acknowledged(written, lambda number, fault: _set_problem(results, records, number, fault))

    async def acknowledged(
        self, written: Sequence[tuple[list[int], Written]], fail: Callable[[int, QanatError], None]
    ) -> None:
        """Return once batches are durable; `fail` is called for each record of one that is not."""

        def refuse(chosen: list[int], fault: QanatError) -> None:
            for number in chosen:
                fail(number, fault)

        waiting = {one.durable: chosen for chosen, one in written if one.durable is not None}
        await acknowledged(waiting, refuse, self._broker.ack_timeouts, self._gateway.timeout_s)

    async def _append_by_request(
        self,
        caller: HttpCaller,
        at: TopicPartition,
        chosen: list[int],
        records: Sequence[ProducerRecord],
        results: list[Result],
        acks: int,
    ) -> None:
        rows = [records[number] for number in chosen]
        if self._gateway.is_alone and self._is_sole(at):
            outcomes = await self._produce_here(caller, at, rows, acks)
        else:
            self._gateway.require_write(caller, (at.topic,))
            outcomes = await self._forwarding.write(at, rows, acks)
        for number, outcome in zip(chosen, outcomes, strict=True):
            results[number] = outcome

    def _is_sole(self, at: TopicPartition) -> bool:
        """Whether no other broker can lead the partition; also of an unknown one, so that the answer says so."""
        topic = self._broker.metadata.image.topics.get(at.topic)
        return topic is None or not at.partition < len(topic.partitions) or len(topic.partitions[at.partition]) == 1

    async def _produce_here(
        self, caller: HttpCaller, at: TopicPartition, records: Sequence[ProducerRecord], acks: int
    ) -> list[Result]:
        """Produce where there is no other broker: with authorization, and an error for each record."""
        outcome = await self._produce(caller, at, encoded(records), acks)
        if isinstance(outcome, int):
            return list(range(outcome, outcome + len(records)))
        if len(records) == 1 or outcome.status >= 500:
            return [outcome] * len(records)
        return [await self._produce(caller, at, encoded([record]), acks) for record in records]

    async def _produce(self, caller: HttpCaller, at: TopicPartition, batch: bytearray, acks: int) -> Result:
        data = PartitionProduceData(at.partition, memoryview(batch))
        timeout_ms = round(self._gateway.timeout_s * 1000)
        # Without an answer there would be none for the client: acks=0 is sent as acks=1.
        request = ProduceRequest(None, acks or 1, timeout_ms, [TopicProduceData(at.topic, partition_data=[data])])
        deadline = Deadline.after(self._gateway.timeout_s)
        while True:
            response: ProduceResponse = await self._gateway.call(caller, ApiKey.PRODUCE, request)
            answer = response.responses[0].partition_responses[0]
            if not answer.error_code:
                return int(answer.base_offset)
            # A new topic has no leader yet.
            if answer.error_code not in _NOT_WRITTEN or deadline.left_seconds <= _PAUSE_S:
                return problem_of(answer.error_code, f"topic {at.topic} partition {at.partition}", answer.error_message)
            await deadline.pause(_PAUSE_S)


def _problem(code: ErrorCode, record: ProducerRecord, message: str) -> Problem:
    return problem_of(code, f"topic {record.topic} partition {record.partition}", message)


def _set_problem(results: list[Result], records: Sequence[ProducerRecord], number: int, fault: QanatError) -> None:
    results[number] = _problem(fault.code, records[number], f"{fault}; {NOT_KNOWN}")


def _fail(waiting: list[Waiting], fault: QanatError) -> None:
    for _, done in waiting:
        if not done.done():
            done.set_exception(fault)
