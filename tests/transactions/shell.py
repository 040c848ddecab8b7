"""The smallest shell around a shard: appends, waits for durability, writes markers into partitions, crashes.

Partitions are real in what matters: each has the log's own view of producers (`log.producers`), so that what a
coordinator promises is judged by the code that must believe it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from tests.log.batches import Writer, batch, marker

from qanat.log.producers import Producers
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidProducerEpochError, QanatError
from qanat.model.ids import TopicPartition
from qanat.transactions.decisions import Decision, Markers
from qanat.transactions.ledger import Ledger
from qanat.transactions.record_codec import decode_record, encode_record
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION, LedgerRecord, TransactionRecord
from qanat.transactions.replies import AddReply, ProducerIdNeeded, ProducerReply, Reply, VerifyReply, refused
from qanat.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdAndEpoch,
    Request,
    VerifyPartitions,
)
from qanat.transactions.settings import TransactionSettings
from qanat.transactions.shard import TransactionShard
from qanat.wire.batch_header import read_header

WALL = 1_700_000_000_000
SECOND = 1_000
MINUTE = 60 * SECOND
A, B, C = (TopicPartition("orders", number) for number in range(3))

R = TypeVar("R")


class Written(NamedTuple):
    """A marker that lies in a partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool


class PartitionStandIn:
    """A partition: which values are open, committed and aborted, and every marker in it."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.end_offset = 0
        self.open: dict[int, list[str]] = {}
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.markers: list[Written] = []

    def write(self, who: ProducerIdAndEpoch, sequence: int, value: str) -> None:
        """A transactional batch of one record; raises what the log raises."""
        header = read_header(batch(writer=Writer(*who, sequence), is_transactional=True))
        if self.producers.check(header) is None:
            self.producers.record(header, self.end_offset, WALL)
            self.end_offset += 1
            self.open.setdefault(who.producer_id, []).append(value)

    def mark(self, markers: Markers, coordinator_epoch: int) -> None:
        """End the transaction here; raises what the log raises."""
        who = markers.producer_id, markers.producer_epoch
        if not self.producers.check_marker(*who, coordinator_epoch, markers.transaction_version):
            return
        content = marker(*who, at=self.end_offset, is_commit=markers.is_commit, coordinator_epoch=coordinator_epoch)
        self.producers.replay(read_header(content), content, WALL)
        self.end_offset += 1
        self.markers.append(Written(*who, markers.is_commit))
        values = self.open.pop(markers.producer_id, [])
        (self.committed if markers.is_commit else self.aborted).extend(values)

    def is_open(self, who: ProducerIdAndEpoch) -> bool:
        return self.producers.is_open(*who)


@dataclass
class Call:
    """A request on its way: `replies` has its answer once it is released, and never a second one."""

    request: Request
    replies: list[Reply] = field(default_factory=list)

    @property
    def is_answered(self) -> bool:
        return bool(self.replies)

    def reply(self, kind: type[R]) -> R:
        assert len(self.replies) == 1, f"{self.request} has {len(self.replies)} replies"
        reply = self.replies[0]
        assert isinstance(reply, kind), reply
        return reply


class Shell:
    """Runs one shard. Appends become durable in `flush`, markers are written in `write_marker`; unless it is slow,
    both happen at once."""

    def __init__(self, settings: TransactionSettings | None = None, *, is_slow: bool = False) -> None:
        self.settings = settings or TransactionSettings()
        self.is_slow = is_slow
        self.steady_ms = 0
        self.wall_ms = WALL
        self.coordinator_epoch = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.durable = 0
        self.partitions: dict[TopicPartition, PartitionStandIn] = {}
        self.producer_ids = 1_000
        self.load()

    @property
    def now(self) -> Now:
        return Now(self.steady_ms, self.wall_ms)

    def partition(self, at: TopicPartition) -> PartitionStandIn:
        return self.partitions.setdefault(at, PartitionStandIn())

    # The log

    def load(self, *, is_failover: bool = False) -> None:
        """A new shard from the durable part of the log: after a crash, a failed append or a failover."""
        del self.log[self.durable :]
        self.coordinator_epoch += is_failover
        self._unreleased: list[tuple[Call | None, Decision]] = []
        self.markers: list[tuple[Markers, list[TopicPartition]]] = []
        self.shard = self._loaded()
        self._append(None, self.shard.start(self.now))

    def _loaded(self) -> TransactionShard:
        shard = TransactionShard(self.settings)
        for key, value in self.log:
            record = decode_record(key, value)
            assert record is not None
            shard.apply(record)
        return shard

    def fail_append(self, error: ErrorCode) -> None:
        """The records cannot be made durable: everybody who waits is refused, and the shard is loaded again."""
        waiting = [call for call, _ in self._unreleased if call is not None]
        self.load()
        for call in waiting:
            call.replies.append(refused(call.request, error))

    def replayed(self) -> Ledger:
        """The ledger that all records in the log, durable or not, amount to."""
        return self._loaded().ledger

    @property
    def records(self) -> list[LedgerRecord]:
        return [record for entry in self.log if (record := decode_record(*entry)) is not None]

    def record(self, transactional_id: str = "t") -> TransactionRecord:
        return self.shard.ledger.records[transactional_id]

    # Requests, time and markers

    def send(self, request: Request) -> Call:
        call = Call(request)
        decision = self.shard.decide(request, self.now)
        if isinstance(decision.reply, ProducerIdNeeded):
            assert isinstance(request, InitProducer | EndTransaction)
            assert decision == Decision(reply=decision.reply), "nothing was decided"
            self.producer_ids += 1
            fields = {name: getattr(request, name) for name in type(request).__struct_fields__}
            again: Request = type(request)(**{**fields, "fresh_producer_id": self.producer_ids})
            decision = self.shard.decide(again, self.now)
        self._append(call, decision)
        return call

    def ask(self, request: Request, kind: type[R]) -> R:
        return self.send(request).reply(kind)

    def advance(self, duration_ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.steady_ms + duration_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self._move_to(max(deadline_ms, self.steady_ms))
            self._append(None, self.shard.tick(self.now))
        self._move_to(end_ms)

    def _move_to(self, steady_ms: int) -> None:
        self.wall_ms += steady_ms - self.steady_ms
        self.steady_ms = steady_ms

    def _append(self, call: Call | None, decision: Decision) -> None:
        self.log += [encode_record(record) for record in decision.records]
        self._unreleased.append((call, decision))
        if not self.is_slow:
            self.flush()
            while self.markers:
                self.write_marker()

    def flush(self) -> None:
        """Everything appended is durable now: release the answers, and let the markers go."""
        self.durable = len(self.log)
        unreleased, self._unreleased = self._unreleased, []
        for call, decision in unreleased:
            if call is not None:
                assert decision.reply is not None
                call.replies.append(decision.reply)
            self.markers += [(one, list(one.partitions)) for one in decision.markers]

    def write_marker(self, which: int = 0) -> None:
        """Write one marker of one transaction; with its last one the transaction is complete."""
        markers, left = self.markers[which]
        if left:
            # A partition that has seen a later epoch has nothing of this transaction left to end.
            with suppress(InvalidProducerEpochError):
                self.partition(left.pop(0)).mark(markers, self.coordinator_epoch)
        if not left:
            del self.markers[which]
            ended = MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch)
            self._append(None, self.shard.decide(ended, self.now))

    # Producers, in the words of a client

    def init(
        self, expected: ProducerIdAndEpoch | None = None, *, transactional_id: str = "t", timeout_ms: int = MINUTE
    ) -> ProducerReply:
        return self.ask(InitProducer(transactional_id, timeout_ms, expected), ProducerReply)

    def begin(self, transactional_id: str = "t") -> ProducerIdAndEpoch:
        """A producer that has its epoch, after as many attempts as it takes."""
        for _ in range(3):
            reply = self.init(transactional_id=transactional_id)
            if reply.error is ErrorCode.NONE:
                return ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)
            assert reply.error is ErrorCode.CONCURRENT_TRANSACTIONS
        raise AssertionError("no epoch to be had")

    def add(
        self, who: ProducerIdAndEpoch, *partitions: TopicPartition, version: int = CLASSIC, transactional_id: str = "t"
    ) -> ErrorCode:
        return self.ask(AddPartitions(transactional_id, *who, partitions, version), AddReply).error

    def verify(self, who: ProducerIdAndEpoch, at: TopicPartition, *, transactional_id: str = "t") -> ErrorCode:
        return self.ask(VerifyPartitions(transactional_id, *who, (at,)), VerifyReply).errors[at]

    def end(
        self, who: ProducerIdAndEpoch, *, is_commit: bool = True, version: int = CLASSIC, transactional_id: str = "t"
    ) -> ProducerReply:
        return self.ask(EndTransaction(transactional_id, *who, is_commit, version), ProducerReply)

    def end_2(self, who: ProducerIdAndEpoch, *, is_commit: bool = True) -> ProducerReply:
        return self.end(who, is_commit=is_commit, version=EPOCH_PER_TRANSACTION)

    def produce(
        self, who: ProducerIdAndEpoch, at: TopicPartition, sequence: int, value: str, *, version: int = CLASSIC
    ) -> ErrorCode:
        """A transactional write as a leader takes it: asked of the coordinator where it is the first (KIP-890)."""
        partition = self.partition(at)
        if not partition.is_open(who):
            asked = self.add(who, at, version=version) if version else self.verify(who, at)
            if asked is not ErrorCode.NONE:
                return asked
        try:
            partition.write(who, sequence, value)
        except QanatError as fault:
            return fault.code
        return ErrorCode.NONE


def who(reply: ProducerReply) -> ProducerIdAndEpoch:
    assert reply.error is ErrorCode.NONE
    return ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)


def at_epoch(shell: Shell, epoch: int) -> ProducerIdAndEpoch:
    """A producer whose id has had all epochs up to this one."""
    started = shell.begin()
    record = shell.record()
    shell.shard.ledger.apply(record.changed(shell.wall_ms, producer_epoch=epoch))
    return ProducerIdAndEpoch(started.producer_id, epoch)
