"""Records into partitions: where each goes, batches of one turn of the loop, and what became of each record.

Where this broker leads, records go straight into the log; where another does, `forwarding` sees to them.
Records that arrive in the same turn for the same partition leave as one batch: a hundred clients with one record
each cost the log one append, and nobody waits longer for it.

Rule 1: a batch that is refused is tried record by record, so that one bad record does not take others with it.
Rule 2: every record has its own result: a place in the log, or a problem.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.partition_end import Written
from qanat.broker.runtime.cooperative_yield import FEW_ROWS
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError
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
    from qanat.servers.http.caller import Caller
    from qanat.servers.http.kafka_gateway import KafkaGateway
    from qanat.servers.http.records.record_parsing import Outgoing

ACKS = {"all": -1, "leader": 1, "none": 0}
MOVED = -1
_PAUSE_S = 0.05
_NOT_WRITTEN = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
"""Nobody leads yet: nothing was written. A broker that is alone is never replaced as a leader."""

Park = Callable[[Coroutine[Any, Any, None]], object]
Waiting = tuple["Outgoing", asyncio.Future[int]]
"""A record, and who wants to know its offset."""


class Lane:
    """Single records on their way into one partition: those of one turn leave together."""

    __slots__ = ("_bytes", "_loop", "_park", "_partition", "_timeout_s", "_waiting")

    def __init__(self, partition: Partition, timeout_s: float, park: Park) -> None:
        self._partition = partition
        self._park = park
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Waiting] = []
        self._bytes = 0

    def add(self, record: Outgoing) -> asyncio.Future[int]:
        """Its offset, once it is on disk; `MOVED` where it was not written because another leads by now."""
        size = size_of(record)
        if self._bytes + size > BATCH_BYTES and self._waiting:
            self._leave()
        if not self._waiting:
            self._loop.call_soon(self._leave)
        self._bytes += size
        done: asyncio.Future[int] = self._loop.create_future()
        self._waiting.append((record, done))
        return done

    def _leave(self) -> None:
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
            _acknowledge(written, waiting, self._loop, self._timeout_s)

    async def _append_slowly(self, waiting: list[Waiting]) -> None:
        try:
            written = await self._partition.append(encoded([record for record, _ in waiting]))
        except QanatError as fault:
            self._refused(waiting, fault)
        else:
            _acknowledge(written, waiting, self._loop, self._timeout_s)

    def _refused(self, waiting: list[Waiting], fault: QanatError) -> None:
        if len(waiting) > 1:
            for one in waiting:
                self._append([one])
        elif not waiting[0][1].done():
            if fault.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                waiting[0][1].set_result(MOVED)
            else:
                waiting[0][1].set_exception(fault)


def _acknowledge(
    written: Written,
    waiting: list[Waiting],
    loop: asyncio.AbstractEventLoop,
    timeout_s: float,
) -> None:
    """Tell everybody their offset when their batch is on disk, or that it took too long."""
    durable = written.durable

    timer: asyncio.TimerHandle | None = None

    def tell(_: object = None) -> None:
        if timer is not None:
            timer.cancel()
        fault = None if durable is None or durable.cancelled() else durable.exception()
        for offset, (_, done) in enumerate(waiting, written.base_offset):
            if done.done():
                continue
            if fault is not None:
                done.set_exception(fault)
            elif durable is not None and durable.cancelled():
                done.cancel()
            else:
                done.set_result(offset)

    def time_out() -> None:
        for _, done in waiting:
            if not done.done():
                done.set_exception(OutOfTimeError("the record was not on disk in time; it may still get there"))

    if durable is None:
        tell()
    else:
        durable.sync_callback = tell
        timer = loop.call_later(timeout_s, time_out)


class Producing:
    """Writes callers' records."""

    def __init__(self, asking: KafkaGateway) -> None:
        self._asking = asking
        self._broker = asking.broker
        self._forwarding = Forwarding(asking)
        self._lanes: dict[Partition, Lane] = {}
        self._turns: dict[str, int] = {}

    # Where to

    def place(self, record: Outgoing, partitions: int) -> None:
        """Choose a record's partition; raises a problem where it names one that is not there."""
        if record.partition < 0:
            if record.key is not None:
                record.partition = partition_of(record.key, partitions)
            else:
                record.partition = self.take_turns(record.topic, 1) % partitions
        elif record.partition >= partitions:
            raise Problem(
                404,
                f"topic {record.topic} has no partition {record.partition}: it has {partitions}, "
                f"numbered 0 to {partitions - 1}",
                error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )

    def take_turns(self, topic: str, count: int) -> int:
        """The first of so many turns of records without a key."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + count
        return turn

    # One record

    def direct(self, topic: str, number: int, acks: int, *, is_bulk: bool = False) -> Partition | None:
        """The partition, where we lead it and nobody has to be asked; None where the long way is to be gone.

        What waits for followers may see another become leader meanwhile. `forwarding` sends it there again; only
        records in bulk are too many to be sent one batch after the other.
        """
        if self._asking.is_authorized:
            return None
        found = self._broker.local_replicas.writable.get((topic, number))
        if found is None or acks != -1 or found.leader is None:
            return found
        return found if is_bulk and not found.lacks_replicas else None

    async def write_one(self, caller: Caller, record: Outgoing, acks: int) -> int:
        """The offset of one record; -1 where nobody waited for it."""
        partition = self.direct(record.topic, record.partition, acks)
        if partition is not None and acks != -1:
            return await self._write_hastily(partition, record, acks)
        if partition is not None:
            lane = self._lanes.get(partition)
            if lane is None:
                lane = self._lane(partition)
            try:
                offset = await lane.add(record)
            except QanatError as fault:
                raise _problem(fault.code, record, str(fault)) from None
            if offset != MOVED:
                return offset
        (result,) = await self.write(caller, [record], acks)
        if isinstance(result, Problem):
            raise result
        return result

    def _lane(self, partition: Partition) -> Lane:
        if len(self._lanes) > len(self._broker.partitions):
            self._lanes = {one: lane for one, lane in self._lanes.items() if not one.is_retired}
        lane = self._lanes[partition] = Lane(partition, self._asking.timeout_s, self._broker.park)
        return lane

    async def _write_hastily(self, partition: Partition, record: Outgoing, acks: int) -> int:
        try:
            batch = encoded([record])
            written = partition.append_now(batch) or await partition.append(batch)
        except QanatError as fault:
            raise _problem(fault.code, record, str(fault)) from None
        return written.base_offset if acks else -1

    # Many records

    async def write(self, caller: Caller, records: Sequence[Outgoing], acks: int) -> list[Result]:
        """What became of each record, in order. Their partitions are chosen already."""
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
        caller: Caller,
        at: TopicPartition,
        numbers: list[int],
        records: Sequence[Outgoing],
        results: list[Result],
        acks: int,
    ) -> None:
        partition = self.direct(at.topic, at.partition, acks)
        written: list[tuple[list[int], Written]] = []
        for first, end in batches_of(numbers, records):
            chosen = numbers[first:end]
            if partition is None:
                await self._append_asking(caller, at, chosen, records, results, acks)
                continue
            batch = encoded([records[number] for number in chosen])
            try:
                written.append((chosen, partition.append_now(batch) or await partition.append(batch)))
            except QanatError:
                # Refused as a whole: the long way says which record it was.
                await self._append_asking(caller, at, chosen, records, results, acks)
            await asyncio.sleep(0)
        for chosen, one in written:
            if one.durable is not None and acks == -1 and not one.durable.done():
                await asyncio.wait([one.durable])
            fault = one.durable.exception() if one.durable is not None and acks == -1 else None
            for offset, number in enumerate(chosen, one.base_offset):
                results[number] = _problem(_code(fault), records[number], f"{fault}; {NOT_KNOWN}") if fault else offset

    async def _append_asking(
        self,
        caller: Caller,
        at: TopicPartition,
        chosen: list[int],
        records: Sequence[Outgoing],
        results: list[Result],
        acks: int,
    ) -> None:
        rows = [records[number] for number in chosen]
        if self._asking.is_alone and self._is_sole(at):
            outcomes = await self._append_here(caller, at, rows, acks)
        else:
            self._asking.require_write(caller, (at.topic,))
            outcomes = await self._forwarding.write(at, rows, acks)
        for number, outcome in zip(chosen, outcomes, strict=True):
            results[number] = outcome

    def _is_sole(self, at: TopicPartition) -> bool:
        """Whether nobody else can ever lead what is here now; also of what is not there, so that this is told."""
        topic = self._broker.metadata.image.topics.get(at.topic)
        return topic is None or not at.partition < len(topic.partitions) or len(topic.partitions[at.partition]) == 1

    async def _append_here(
        self, caller: Caller, at: TopicPartition, records: Sequence[Outgoing], acks: int
    ) -> list[Result]:
        """The same where there is nobody else: through the guards, and with everybody's own refusal."""
        outcome = await self._append(caller, at, encoded(records), acks)
        if isinstance(outcome, int):
            return list(range(outcome, outcome + len(records)))
        if len(records) == 1 or outcome.status >= 500:
            return [outcome] * len(records)
        return [await self._append(caller, at, encoded([record]), acks) for record in records]

    async def _append(self, caller: Caller, at: TopicPartition, batch: bytearray, acks: int) -> Result:
        data = PartitionProduceData(at.partition, memoryview(batch))
        timeout_ms = round(self._asking.timeout_s * 1000)
        # Without an answer we would have none to give either: acks=0 is asked for as acks=1.
        request = ProduceRequest(None, acks or 1, timeout_ms, [TopicProduceData(at.topic, partition_data=[data])])
        deadline = Deadline.after(self._asking.timeout_s)
        while True:
            response: ProduceResponse = await self._asking.ask(caller, ApiKey.PRODUCE, request)
            answer = response.responses[0].partition_responses[0]
            if not answer.error_code:
                return int(answer.base_offset)
            # A topic that was made a moment ago has no leader yet.
            if answer.error_code not in _NOT_WRITTEN or deadline.left_seconds <= _PAUSE_S:
                return problem_of(answer.error_code, f"topic {at.topic} partition {at.partition}", answer.error_message)
            await deadline.pause(_PAUSE_S)


def _problem(code: ErrorCode, record: Outgoing, message: str) -> Problem:
    return problem_of(code, f"topic {record.topic} partition {record.partition}", message)


def _code(fault: BaseException | None) -> ErrorCode:
    return fault.code if isinstance(fault, QanatError) else ErrorCode.UNKNOWN_SERVER_ERROR
