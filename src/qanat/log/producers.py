"""Idempotent producers and open transactions, as one partition sees them.

A producer that retries must not write twice, and one that was replaced must
not write at all. For each producer id the partition remembers the epoch in
force and its last five batches: a batch that repeats one of them is answered
with the offset it got the first time (KIP-98), one that leaves a gap in the
sequence is refused. An open transaction holds back the last stable offset
until its marker arrives and is replicated.

Rule 1: `check` decides and changes nothing; `record` and `complete` change and refuse nothing,
        so that replaying a log always succeeds.
Rule 2: a producer with an open transaction never expires.

Who may end a transaction, and when, is the coordinator's business (`transactions`).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from qanat.log.files import Buffer
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.model.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    QanatError,
)
from qanat.model.ids import NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE
from qanat.wire.batch_header import BatchHeader
from qanat.wire.control import decode_marker

BATCHES_REMEMBERED = 5
"""As many requests as an idempotent producer may have in flight."""
_LAST_SEQUENCE = 2**31 - 1
NO_COORDINATOR_EPOCH = -1
_EPOCH_PER_TRANSACTION = 2


class WrittenBatch(NamedTuple):
    """Where a producer's batch went. Sequences are not stored where they follow: base = last - delta."""

    last_sequence: int
    last_offset: int
    offset_delta: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _LAST_SEQUENCE

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerState:
    """One producer id's standing in this partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_used_ms", "transaction_first_offset")

    def __init__(self, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: tuple[WrittenBatch, ...] = ()
        self.last_used_ms = -1
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.transaction_first_offset: int = NO_OFFSET

    def __repr__(self) -> str:
        sequence = self.batches[-1].last_sequence if self.batches else "none"
        transaction = f", open since {self.transaction_first_offset}" if self.transaction_first_offset >= 0 else ""
        return f"ProducerState(epoch {self.epoch}, sequence {sequence}{transaction})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerState) and (
            (self.epoch, self.batches, self.coordinator_epoch, self.transaction_first_offset)
            == (other.epoch, other.batches, other.coordinator_epoch, other.transaction_first_offset)
        )


class CompletedTransaction(Struct, frozen=True):
    """A transaction whose marker is in the log at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """Where the last stable offset stood without this transaction: kept in the aborted index."""

    def as_aborted(self) -> AbortedTransaction:
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class Announced:
    """A transaction that may begin in this partition, if its marker does not come first (KIP-890).

    A write that was long on its way must not open a transaction that nobody will end. So the coordinator is asked
    before the first write, and what it says holds until the next marker: whichever of the two comes later wins.
    """

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch: int = NO_PRODUCER_EPOCH
        """Set when the coordinator has said yes."""


class Producers:
    """Every producer that one partition remembers."""

    __slots__ = ("_announced", "_open", "_states", "_unreplicated", "is_gated")

    def __init__(self, states: dict[int, ProducerState] | None = None) -> None:
        self._states = states or {}
        self._open = {
            producer_id: state.transaction_first_offset
            for producer_id, state in self._states.items()
            if state.transaction_first_offset >= 0
        }
        self._unreplicated: list[CompletedTransaction] = []
        self._announced: dict[int, Announced] = {}
        self.is_gated = False
        """Whether a transaction may be opened here only after it was announced: see `Announced`."""

    def __len__(self) -> int:
        return len(self._states)

    @property
    def states(self) -> dict[int, ProducerState]:
        return self._states

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """Whether a client's batch may be appended: None if so, the batch it repeats if it was written before.

        Raises what Kafka answers to a fenced producer, a gap, or a write outside the open transaction.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            if self.is_gated and header.is_transactional:
                self._check_announced(header)
            return None  # Unknown, or forgotten: any sequence is taken, as since KIP-360.
        if header.producer_epoch == state.epoch:
            for batch in state.batches:
                if batch.last_sequence == header.last_sequence and batch.offset_delta == header.last_offset_delta:
                    return batch
        _check_epoch(header.producer_id, header.producer_epoch, state)
        if self.is_gated and header.is_transactional and state.transaction_first_offset < 0:
            self._check_announced(header)
        if header.base_sequence != NO_SEQUENCE:  # Our own coordinators write without; clients cannot.
            _check_sequence(header, state)
        if state.transaction_first_offset >= 0 and not header.is_transactional:
            raise InvalidTransactionStateError(
                f"producer {header.producer_id} has an open transaction in this partition: "
                "a plain write must wait for its end"
            )
        return None

    def _check_announced(self, header: BatchHeader) -> None:
        announced = self._announced.get(header.producer_id)
        if announced is None or announced.epoch != header.producer_epoch:
            raise InvalidTransactionStateError(
                f"producer {header.producer_id} has no transaction with epoch {header.producer_epoch} that includes "
                "this partition: it may have been ended meanwhile"
            )

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remember a batch that is in the log at `base_offset`."""
        state = self._at_epoch(header.producer_id, header.producer_epoch)
        if header.base_sequence != NO_SEQUENCE:
            last_offset = base_offset + header.last_offset_delta
            batch = WrittenBatch(header.last_sequence, last_offset, header.last_offset_delta)
            state.batches = (*state.batches[1 - BATCHES_REMEMBERED :], batch)
        state.last_used_ms = now_ms
        if header.is_transactional and state.transaction_first_offset < 0:
            self._announced.pop(header.producer_id, None)
            state.transaction_first_offset = self._open[header.producer_id] = base_offset

    def announce(self, producer_id: int) -> Announced:
        """A transaction may be about to begin here: its coordinator is being asked."""
        return self._announced.setdefault(producer_id, Announced())

    def confirm(self, producer_id: int, epoch: int, announced: Announced) -> bool:
        """The coordinator has said yes; False where the transaction was ended before we heard."""
        if self._announced.get(producer_id) is not announced:
            return self.is_open(producer_id, epoch)  # Another write was quicker, or a marker.
        announced.epoch = epoch
        return True

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has written here in a transaction that is not ended."""
        state = self._states.get(producer_id)
        return state is not None and state.transaction_first_offset >= 0 and state.epoch == epoch

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int = 0) -> bool:
        """Whether a coordinator may end the producer's transaction here; False where that was done before.

        In transaction version 2 each transaction has an epoch of its own, which its marker is the first to bring:
        a marker with the epoch of the open transaction is an old one, long on its way (KIP-1228).
        """
        state = self._states.get(producer_id)
        if state is None:
            return True
        _check_epoch(producer_id, epoch, state)
        is_open = state.transaction_first_offset >= 0
        if transaction_version >= _EPOCH_PER_TRANSACTION and epoch == state.epoch and is_open:
            raise InvalidProducerEpochError(
                f"marker of producer {producer_id} with epoch {epoch}, which its open transaction has: "
                "it belongs to an earlier transaction"
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise CoordinatorFencedError(
                f"marker of producer {producer_id} from coordinator epoch {coordinator_epoch}: "
                f"{state.coordinator_epoch} has taken over"
            )
        # Where a transaction was announced, a marker must come after that, written or not.
        is_ended = not is_open and epoch == state.epoch and producer_id not in self._announced
        # An epoch without batches was brought by the very marker that is asked for; it does not matter by whom.
        is_own_epoch = transaction_version >= _EPOCH_PER_TRANSACTION or not state.batches
        has_marker = state.coordinator_epoch == coordinator_epoch or (
            is_own_epoch and state.coordinator_epoch != NO_COORDINATOR_EPOCH
        )
        return not (is_ended and has_marker)

    def complete(
        self, header: BatchHeader, offset: int, *, is_commit: bool, coordinator_epoch: int, now_ms: int
    ) -> CompletedTransaction | None:
        """Remember a marker that is in the log at `offset`; None where no transaction was open."""
        state = self._at_epoch(header.producer_id, header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_used_ms = now_ms
        self._announced.pop(header.producer_id, None)
        first_offset = self._open.pop(header.producer_id, None)
        state.transaction_first_offset = NO_OFFSET
        if first_offset is None:
            return None
        stable = min(self._open.values(), default=offset + 1)
        completed = CompletedTransaction(header.producer_id, first_offset, offset, not is_commit, stable)
        self._unreplicated.append(completed)
        return completed

    def replay(self, header: BatchHeader, batch: Buffer, now_ms: int) -> CompletedTransaction | None:
        """Take a batch that is already in a log into account; returns the transaction that it ends, if any."""
        if header.producer_id < 0:
            return None
        if not header.is_control:
            self.record(header, header.base_offset, now_ms)
            return None
        try:
            marker = decode_marker(batch)
        except QanatError:
            marker = None  # Sound bytes that say nothing we know: kept, and no reason to stop (rule 1).
        if marker is None:
            return None
        return self.complete(
            header,
            header.base_offset,
            is_commit=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=now_ms,
        )

    def _at_epoch(self, producer_id: int, epoch: int) -> ProducerState:
        """The state to change; a new epoch starts its sequence afresh."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches = ()
        return state

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset whose fate is open: its transaction is undecided, or the decision is not replicated."""
        if self._unreplicated:
            self._unreplicated = [txn for txn in self._unreplicated if txn.last_offset >= high_watermark]
        elif not self._open:
            return None
        candidates = [*self._open.values(), *(txn.first_offset for txn in self._unreplicated)]
        return min(candidates, default=None)

    def open_transactions(self, silent_since_ms: int | None = None) -> int:
        """How many transactions are open; of those, where a moment is given, to which nobody wrote since then."""
        if silent_since_ms is None:
            return len(self._open)
        return sum(self._states[producer_id].last_used_ms < silent_since_ms for producer_id in self._open)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for too long; return how many."""
        silent = [
            producer_id
            for producer_id, state in self._states.items()
            if state.transaction_first_offset < 0 and now_ms - state.last_used_ms > expiration_ms
        ]
        for producer_id in silent:
            del self._states[producer_id]
        return len(silent)


def _check_epoch(producer_id: int, epoch: int, state: ProducerState) -> None:
    if epoch < state.epoch:
        raise InvalidProducerEpochError(
            f"producer {producer_id} with epoch {epoch} was fenced: epoch {state.epoch} is in force"
        )


def _check_sequence(header: BatchHeader, state: ProducerState) -> None:
    """A new epoch starts at 0, and so does the first write after a marker that raised the epoch."""
    continues = state.batches and header.producer_epoch == state.epoch
    expected = (state.batches[-1].last_sequence + 1) & _LAST_SEQUENCE if continues else 0
    if header.base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} is next"
        )
