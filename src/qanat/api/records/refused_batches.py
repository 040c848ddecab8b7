"""Batches of an idempotent producer that were refused for now: the batches in flight behind them are refused alike.

A batch is refused, because replicas are missing or the leader is not known yet, and the cause ends a moment later. The
next batch of the producer would leave a gap in its sequence. Answered OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka raises
its epoch and sends every batch of unknown fate again, in all partitions: those that were written are then written
twice. A partition that does not know the producer yet would even take the later batch, and refuse the earlier one.

Rule: a batch is held back only where the refused one is the producer's next, and the client was told on this
connection. A producer that never repeats it is answered as ever after five more batches.
"""

from __future__ import annotations

from collections import deque

from qanat.log.producers import BATCHES_REMEMBERED, Producers
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_SEQUENCE
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, Buffer, read_header

RETRIABLE = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors which say that a batch was not appended, and after which its producer sends it again."""
_PARTITIONS_REMEMBERED = 10_000
_SEQUENCES = 2**31
"""Sequences start anew after the last."""


class RefusedSequence:
    """The last refused batches of one producer in one partition."""

    __slots__ = ("base_sequences", "code", "producer")

    def __init__(self, producer: tuple[int, int]) -> None:
        self.producer = producer
        """Id and epoch."""
        self.code = ErrorCode.NONE
        """The last error."""
        self.base_sequences: deque[int] = deque(maxlen=BATCHES_REMEMBERED)
        """At most as many as may be in flight."""

    def precedes(self, header: BatchHeader, producers: Producers) -> bool:
        """Whether the producer's next batch was refused, and `header` is of a later one."""
        expected = producers.next_sequence(header.producer_id, header.producer_epoch)
        if expected is None:
            return any(
                0 < (header.base_sequence - refused) % _SEQUENCES < _SEQUENCES // 2 for refused in self.base_sequences
            )
        return expected != header.base_sequence and expected in self.base_sequences


class RefusedBatches(dict[tuple[str, int], RefusedSequence]):
    """The refused batches of one client, by topic and partition; nearly always empty."""

    __slots__ = ()

    def note(self, at: tuple[str, int], batch: Buffer, code: ErrorCode) -> None:
        """Remember a refused batch; nothing where the error is final, or the batch is not idempotent."""
        if code not in RETRIABLE or len(batch) < HEADER_SIZE:
            return
        header = read_header(batch)
        if header.producer_id < 0 or header.base_sequence == NO_SEQUENCE:
            return
        producer = (header.producer_id, header.producer_epoch)
        refused = self.get(at)
        if refused is None and len(self) >= _PARTITIONS_REMEMBERED:
            return
        if refused is None or refused.producer != producer:
            refused = self[at] = RefusedSequence(producer)
        refused.code = code
        refused.base_sequences.append(header.base_sequence)

    def code_before(self, at: tuple[str, int], batch: Buffer, producers: Producers) -> ErrorCode | None:
        """The error of the refused batch that must come first; None where this one may be appended."""
        refused = self.get(at)
        if refused is None or len(batch) < HEADER_SIZE:
            return None
        header = read_header(batch)
        if refused.producer != (header.producer_id, header.producer_epoch):
            return None
        if refused.precedes(header, producers):
            return refused.code
        del self[at]
        return None
