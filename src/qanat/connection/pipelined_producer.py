"""A producer that keeps several requests in flight: the asyncio shell of `batch_pipeline`.

One request to a leader has a batch of each of its partitions that may send. A closed batch is added and forgotten: its
`on_done` is called once, with its place in the log or with its fault, at the latest some time after it expires. Callers
bound what they add; `has_room` says where a batch would only wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any

import msgspec

from qanat.connection.batch_pipeline import WINDOW, BatchPipeline, Outcome, Pending, outcome_of
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import (
    NotOfferedError,
    OutOfTimeError,
    RefusedError,
    UnreachableError,
    UnsendableError,
    error_code,
    refused,
)
from qanat.connection.producer_session import ProducerSession
from qanat.connection.topic_leaders import LeaderDirectory
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.telemetry.producer_metrics import ProducerMetrics
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import set_producer

ACKS_ALL = -1
ACKS_NONE = 0
_PARTITIONS_ARE_ADDED_FIRST = 11
"""Later versions of Produce add partitions to a transaction by themselves (KIP-890), and all its requests must know."""
_ATTEMPT_S = 10.0
"""How long one leader may take: it may have been replaced without knowing, and then no follower ever catches up."""
_TURN_S = 1.0
"""How often batches that wait are looked at when nothing happens."""
_LATE_S = 0.05
"""How long after its time a batch expires: whoever looked for its leader so long says why it was not found."""
_MOVING = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Refusals of brokers that do not lead the partition: the search for its leader goes on, which is no retry."""


class PipelineLimits(msgspec.Struct, frozen=True):
    """How a producer sends."""

    acks: int = ACKS_ALL
    retries: int | None = None
    """How often a batch is sent again that a broker took and did not acknowledge; None until it expires. The search
    for a leader is no retry."""
    final: Collection[ErrorCode] = ()
    """Refusals that no retry helps against, besides those that are final for everyone."""
    request_timeout_s: float = 30.0
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    requests_in_flight: int = WINDOW
    """To one broker."""
    request_bytes: int = 1 << 20
    """About the size of a request; one batch may be larger."""


class PipelinedProducer:
    """Lives on one event loop; `identify` comes first. `jitter` returns numbers between 0 and 1."""

    def __init__(
        self,
        cluster: Cluster,
        limits: PipelineLimits,
        leaders: LeaderDirectory,
        on_progress: Callable[[], None],
        jitter: Callable[[], float],
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self._cluster = cluster
        self._limits = limits
        self._leaders = leaders
        self._on_progress = on_progress
        self._jitter = jitter
        self._loop = asyncio.get_running_loop()
        self.session: ProducerSession | None = None
        self._lines: dict[TopicPartition, BatchPipeline] = {}
        self._busy: dict[TopicPartition, BatchPipeline] = {}
        self._requests: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._adding = asyncio.Lock()
        self._is_scheduled = False
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0
        """When that is: uvloop makes no timer of a time that has come, and its handle does not know."""
        self._is_closed = False
        self._metrics = metrics or ProducerMetrics()

    # What callers do

    def identify(self, session: ProducerSession | None) -> None:
        """Send under this identity; None where the producer is not idempotent. All partitions are idle."""
        self.session = session
        self._lines.clear()

    def add(self, pending: Pending) -> None:
        """Send it when its turn comes."""
        line = self._lines.get(pending.at)
        if line is None:
            line = self._lines[pending.at] = self._new_line()
        line.add(pending)
        self._busy[pending.at] = line
        self.wake()

    def has_room(self, at: TopicPartition) -> bool:
        """Whether a batch for this partition would be sent at once."""
        line = self._busy.get(at)
        return line is None or line.has_room

    def in_flight(self, at: TopicPartition) -> int:
        """Batches of this partition that have no answer yet."""
        line = self._busy.get(at)
        return 0 if line is None else line.in_flight

    @property
    def is_idle(self) -> bool:
        return not self._busy

    def wake(self) -> None:
        """Look what can be sent, in the loop's next turn."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    def fail_waiting(self, fault: QanatError) -> None:
        """Give up everything that is not in flight."""
        for at, line in list(self._busy.items()):
            for pending in line.fail_all():
                self._fail(pending, fault)
            if line.is_idle:
                self._busy.pop(at, None)

    async def close(self) -> None:
        """Give up everything."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        late = OutOfTimeError("the producer was closed before the broker acknowledged")
        for line in self._busy.values():
            for pending in line.fail_all(is_closed=True):
                self._fail(pending, pending.fault or late)
        self._busy.clear()

    def _new_line(self) -> BatchPipeline:
        session = self.session
        if session is None:
            return BatchPipeline()
        is_transactional = session.transactional_id is not None
        return BatchPipeline(session.producer_id, session.epoch, is_transactional=is_transactional)

    # Sending

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        now = self._loop.time()
        next_at = now + _TURN_S
        ready: dict[int, list[Pending]] = {}
        for at, line in list(self._busy.items()):
            self._expire(at, line, now)
            if line.wants_producer_id:
                self._spawn(self._renumber(line))
                continue
            next_at = min(next_at, line.expires_at + 2 * _LATE_S)
            leader = self._leaders.leader(at)
            if leader is None:
                self._spawn_refresh(at.topic, now)
                continue
            if self._requests.get(leader, 0) >= self._limits.requests_in_flight:
                continue
            pending = line.take(now)
            if pending is not None:
                ready.setdefault(leader, []).append(pending)
            elif line.not_before > now:
                next_at = min(next_at, line.not_before)
        for leader, batches in ready.items():
            for some in _by_size(batches, self._limits.request_bytes):
                self._requests[leader] = self._requests.get(leader, 0) + 1
                self._spawn(self._send(leader, some))
        if ready:
            self.wake()  # A partition may have more than one batch to send.
        elif self._busy:
            self._wake_at(next_at)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_s <= when and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer, self._timer_s = self._loop.call_at(when, self._on_timer), when

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()

    def _expire(self, at: TopicPartition, line: BatchPipeline, now: float) -> None:
        for pending in line.expire(now - _LATE_S):
            late = OutOfTimeError(f"no broker acknowledged the records of {at} in time")
            self._fail(pending, pending.fault or self._leaders.fault(at) or late)
        if line.is_idle:
            self._busy.pop(at, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, leader: int, batches: list[Pending]) -> None:
        limits = self._limits
        latest = max(one.expires_at for one in batches)
        deadline = Deadline(min(self._loop.time() + min(limits.request_timeout_s, _ATTEMPT_S), latest))
        was_sent = False
        try:
            await self._prepare(batches, deadline)
            link = await self._cluster.node_link(leader, deadline)
            request = self._request(batches, deadline)
            was_sent = True
            self._metrics.requests += 1
            if limits.acks == ACKS_NONE:
                await link.send_one_way(ApiKey.PRODUCE, request, deadline)
                for pending in batches:
                    self._settle(pending, Outcome.WRITTEN, -1, -1)
                return
            try:
                response: ProduceResponse = await link.call(
                    ApiKey.PRODUCE, request, deadline, at_most=_PARTITIONS_ARE_ADDED_FIRST
                )
            except OutOfTimeError:
                link.abort()  # Later requests would wait behind this one.
                raise
            self._take(batches, response)
        except QanatError as fault:
            is_final = not isinstance(fault, UnreachableError | OutOfTimeError) and not (
                isinstance(fault, RefusedError) and fault.is_retriable
            )
            for pending in batches:
                if is_final:
                    # The broker may have it where its answer cannot be read.
                    pending.may_be_written |= was_sent and not isinstance(fault, NotOfferedError | UnsendableError)
                    self._settle_fault(pending, Outcome.REFUSED, fault)
                else:
                    self._settle_fault(pending, Outcome.LOST if was_sent else Outcome.REFUSED_FOR_NOW, fault)
        finally:
            self._requests[leader] -= 1
            self.wake()
            self._on_progress()

    async def _prepare(self, batches: list[Pending], deadline: Deadline) -> None:
        """Write the numbers into the batches; make their partitions part of the transaction."""
        session = self.session
        if session is None:
            return
        is_transactional = session.transactional_id is not None
        for one in batches:
            set_producer(one.batch, one.producer_id, one.epoch, one.sequence, is_transactional=is_transactional)
        if is_transactional:
            async with self._adding:
                await session.add([one.at for one in batches], deadline)

    def _request(self, batches: list[Pending], deadline: Deadline) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for one in batches:
            topics.setdefault(one.at.topic, []).append(PartitionProduceData(one.at.partition, memoryview(one.batch)))
        return ProduceRequest(
            None if self.session is None else self.session.transactional_id,
            self._limits.acks,
            max(1, deadline.left_ms),
            [TopicProduceData(topic, partition_data=data) for topic, data in topics.items()],
        )

    # Outcomes

    def _take(self, batches: list[Pending], response: ProduceResponse) -> None:
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            for answer in topic.partition_responses:
                answers[TopicPartition(topic.name, answer.index)] = answer
        for pending in batches:
            answer_or_none = answers.get(pending.at)
            if answer_or_none is None:
                fault = UnreachableError(f"the broker's answer says nothing about {pending.at}")
                self._settle_fault(pending, Outcome.LOST, fault)
            elif answer_or_none.error_code == 0:
                self._settle(pending, Outcome.WRITTEN, answer_or_none.base_offset, answer_or_none.log_append_time_ms)
            else:
                self._take_refusal(pending, answer_or_none)

    def _take_refusal(self, pending: Pending, answer: PartitionProduceResponse) -> None:
        code = error_code(answer.error_code)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._settle(pending, Outcome.WRITTEN, -1, -1)
            return
        if code is ErrorCode.MESSAGE_TOO_LARGE and pending.count > 1 and pending.split is not None:
            self._lines[pending.at].split(pending, pending.split(pending))
            return
        what = f"topic {pending.at.topic} partition {pending.at.partition} did not take the records"
        reasons = [one.batch_index_error_message for one in answer.record_errors if one.batch_index_error_message]
        message = answer.error_message or "; ".join(reasons[:1]) or None
        outcome = Outcome.REFUSED if code in self._limits.final else outcome_of(code)
        self._settle_fault(pending, outcome, refused(what, code, message))

    def _settle(self, pending: Pending, outcome: Outcome, base_offset: int, appended_ms: int) -> None:
        line = self._lines[pending.at]
        line.settle(pending, outcome, 0.0)
        pending.fault = None
        metrics = self._metrics
        metrics.records += pending.count
        metrics.batches += 1
        metrics.batch_bytes += len(pending.batch)
        pending.on_done(pending, base_offset, appended_ms)
        if line.is_idle:
            self._busy.pop(pending.at, None)

    def _settle_fault(self, pending: Pending, outcome: Outcome, fault: QanatError) -> None:
        if outcome is not Outcome.REFUSED:
            self._leaders.distrust(pending.at.topic)
            if self._was_taken(outcome, fault) and not self._may_retry(pending):
                pending.may_be_written |= outcome is Outcome.LOST
                outcome = Outcome.REFUSED
        line = self._lines[pending.at]
        is_done = line.settle(pending, outcome, self._loop.time() + self._pause_s(pending.attempts))
        if is_done:
            self._fail(pending, fault)
        elif outcome is not Outcome.OUT_OF_ORDER or pending.fault is None:
            pending.fault = fault
        if line.is_idle:
            self._busy.pop(pending.at, None)

    @staticmethod
    def _was_taken(outcome: Outcome, fault: QanatError) -> bool:
        """Whether a leader had the batch in its hands: to send it again is a retry then.

        A batch that only came behind a failed one has not failed itself.
        """
        if outcome is Outcome.REFUSED_FOR_NOW:
            return isinstance(fault, RefusedError) and fault.code not in _MOVING
        return outcome is Outcome.LOST

    def _may_retry(self, pending: Pending) -> bool:
        """Count one more retry, where there is one."""
        limit = self._limits.retries
        if limit is not None and pending.retries >= limit:
            return False
        pending.retries += 1
        self._metrics.retries += 1
        return True

    def _pause_s(self, attempts: int) -> float:
        limits = self._limits
        pause: float = min(limits.retry_backoff_s * 2 ** min(attempts - 1, 16), limits.retry_backoff_max_s)
        return pause * (0.8 + 0.4 * self._jitter())

    def _fail(self, pending: Pending, fault: QanatError) -> None:
        self._metrics.failed_records += pending.count
        pending.fault = fault
        pending.on_done(pending, -1, -1)

    # Leaders and identities

    def _spawn_refresh(self, topic: str, now: float) -> None:
        """Find the topic's leaders, for as long as some batch waits for one."""
        waits = [line.expires_at for at, line in self._busy.items() if at.topic == topic and line.expires_at > now]
        if waits and self._leaders.begin(topic):
            self._spawn(self._refresh(topic, Deadline(min(now + self._limits.request_timeout_s, max(waits)))))

    async def _refresh(self, topic: str, deadline: Deadline) -> None:
        try:
            await self._leaders.refresh(topic, deadline)
        except (UnreachableError, OutOfTimeError) as fault:
            if not self._cluster.was_reached:
                self.fail_waiting(fault)
        except RefusedError as fault:
            if not fault.is_retriable:
                self._fail_topic(topic, fault)
        except QanatError as fault:
            self.fail_waiting(fault)
        self.wake()

    def _fail_topic(self, topic: str, fault: QanatError) -> None:
        for at, line in list(self._busy.items()):
            if at.topic == topic:
                for pending in line.fail_all():
                    self._fail(pending, fault)
                if line.is_idle:
                    self._busy.pop(at, None)

    async def _renumber(self, line: BatchPipeline) -> None:
        """Another producer id for a partition that has used all epochs of its own."""
        line.wants_producer_id = False
        try:
            session = await ProducerSession.idempotent(self._cluster, Deadline.after(self._limits.request_timeout_s))
        except QanatError:
            line.wants_producer_id = True
            await asyncio.sleep(self._pause_s(1))
        else:
            line.identify(session.producer_id, session.epoch)
        self.wake()


def _by_size(batches: list[Pending], limit_bytes: int) -> Iterable[list[Pending]]:
    """The batches in groups of about that size."""
    some: list[Pending] = []
    size = 0
    for one in batches:
        if some and size + len(one.batch) > limit_bytes:
            yield some
            some, size = [], 0
        some.append(one)
        size += len(one.batch)
    yield some
