"""Idempotent producers and open transactions of one partition.

A producer that retries must not write twice, and a fenced one must
not write at all. For each producer id the partition remembers the current epoch
and the last five batches. A batch that repeats one of them is answered
with the offset of the first copy (KIP-98); one that leaves a gap in the
sequence is refused. An open transaction holds back the last stable offset
until its marker arrives and is replicated.

Rule 1: `check` decides and changes nothing; `record` and `complete` change and refuse nothing,
        so that replaying a log always succeeds.
Rule 2: a producer with an open transaction never expires.

The coordinator decides who may end a transaction, and when (`transactions`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

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
    """Where a producer's batch is. The base sequence is not stored: base = last - delta."""

    last_sequence: int
    last_offset: int
    offset_delta: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _LAST_SEQUENCE

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerHeader(Protocol):
    """What a batch's header says of its producer."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...


class ProducerState:
    """The state of one producer id in this partition."""

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
    """The last stable offset without this transaction: stored in the aborted index."""

    def as_aborted(self) -> AbortedTransaction:
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class VerificationEntry:
    """A transaction that may begin in this partition, if its marker does not come first (KIP-890).

    A delayed write must not open a transaction that no coordinator will end. So the partition asks the coordinator
    before the first write; the answer holds until the next marker: the later of the two wins.
    """

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch: int = NO_PRODUCER_EPOCH
        """Set when the coordinator has confirmed the transaction."""


class Producers:
    """All producers that one partition remembers."""

    __slots__ = ("_open", "_states", "_unreplicated", "_verifications", "requires_verification")

    def __init__(self, states: dict[int, ProducerState] | None = None) -> None:
        self._states = states or {}
        self._open = {
            producer_id: state.transaction_first_offset
            for producer_id, state in self._states.items()
            if state.transaction_first_offset >= 0
        }
        self._unreplicated: list[CompletedTransaction] = []
        self._verifications: dict[int, VerificationEntry] = {}
        self.requires_verification = False
        """Whether a transaction opens here only after the coordinator confirmed it: see `VerificationEntry`."""

    def __len__(self) -> int:
        return len(self._states)

    @property
    def states(self) -> dict[int, ProducerState]:
        return self._states

    def check(self, header: ProducerHeader) -> WrittenBatch | None:
        """Whether a client's batch may be appended: None if so, the first copy if it was written before.

        Raises Kafka's errors for a fenced producer, a gap, or a write outside the open transaction.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            if self.requires_verification and header.is_transactional:
                self._check_verified(header)
            return None  # Unknown, or expired: any sequence is accepted, since KIP-360.
        if header.producer_epoch == state.epoch:
            for batch in state.batches:
                if batch.last_sequence == header.last_sequence and batch.offset_delta == header.last_offset_delta:
                    return batch
        _check_epoch(header.producer_id, header.producer_epoch, state)
        if self.requires_verification and header.is_transactional and state.transaction_first_offset < 0:
            self._check_verified(header)
        if header.base_sequence != NO_SEQUENCE:  # Our own coordinators write without one; clients cannot.
            _check_sequence(header, state)
        if state.transaction_first_offset >= 0 and not header.is_transactional:
            raise InvalidTransactionStateError(
                f"producer {header.producer_id} has an open transaction in this partition: "
                "a plain write must wait for its end"
            )
        return None

    def _check_verified(self, header: ProducerHeader) -> None:
        verification = self._verifications.get(header.producer_id)
        if verification is None or verification.epoch != header.producer_epoch:
            raise InvalidTransactionStateError(
                f"producer {header.producer_id} has no transaction with epoch {header.producer_epoch} that includes "
                "this partition: it may have been ended meanwhile"
            )

    def record(self, header: ProducerHeader, base_offset: int, now_ms: int) -> None:
        """Remember a batch that is in the log at `base_offset`."""
        state = self._at_epoch(header.producer_id, header.producer_epoch)
        if header.base_sequence != NO_SEQUENCE:
            last_offset = base_offset + header.last_offset_delta
            batch = WrittenBatch(header.last_sequence, last_offset, header.last_offset_delta)
            state.batches = (*state.batches[1 - BATCHES_REMEMBERED :], batch)
        state.last_used_ms = now_ms
        if header.is_transactional and state.transaction_first_offset < 0:
            self._verifications.pop(header.producer_id, None)
            state.transaction_first_offset = self._open[header.producer_id] = base_offset

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """The base sequence that a producer's next batch must have; None where the producer is unknown."""
        state = self._states.get(producer_id)
        return None if state is None else _next_sequence(epoch, state)

    def begin_verification(self, producer_id: int) -> VerificationEntry:
        """A transaction may begin here: its coordinator is being asked."""
        return self._verifications.setdefault(producer_id, VerificationEntry())

    def complete_verification(self, producer_id: int, epoch: int, verification: VerificationEntry) -> bool:
        """The coordinator has confirmed; False where the transaction ended before the answer came."""
        if self._verifications.get(producer_id) is not verification:
            return self.is_open(producer_id, epoch)  # Another write was faster, or a marker.
        verification.epoch = epoch
        return True

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has written here in a transaction that is still open."""
        state = self._states.get(producer_id)
        return state is not None and state.transaction_first_offset >= 0 and state.epoch == epoch

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int = 0) -> bool:
        """Whether a coordinator may end the producer's transaction here; False where it is ended already.

        In transaction version 2 each transaction has an epoch of its own, and its marker carries the next one: a marker
        with the epoch of the open transaction is a delayed one of an earlier transaction (KIP-1228).
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
                f"{state.coordinator_epoch} is current"
            )
        # Where a transaction was announced, a marker must follow, whether records were written or not.
        is_ended = not is_open and epoch == state.epoch and producer_id not in self._verifications
        # An epoch without batches came with the very marker that is asked for; no matter from which coordinator.
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
        self._verifications.pop(header.producer_id, None)
        first_offset = self._open.pop(header.producer_id, None)
        state.transaction_first_offset = NO_OFFSET
        if first_offset is None:
            return None
        stable = min(self._open.values(), default=offset + 1)
        completed = CompletedTransaction(header.producer_id, first_offset, offset, not is_commit, stable)
        self._unreplicated.append(completed)
        return completed

    def replay(self, header: BatchHeader, batch: Buffer, now_ms: int) -> CompletedTransaction | None:
        """Apply a batch that is already in a log; returns the transaction that it ends, if any."""
        if header.producer_id < 0:
            return None
        if not header.is_control:
            self.record(header, header.base_offset, now_ms)
            return None
        try:
            marker = decode_marker(batch)
        except QanatError:
            marker = None  # Sound bytes of an unknown kind: they stay, and the replay goes on (rule 1).
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
        """The state to change; a new epoch starts its sequence anew."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches = ()
        return state

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first undecided offset: its transaction is open, or its marker is not replicated."""
        if self._unreplicated:
            self._unreplicated = [txn for txn in self._unreplicated if txn.last_offset >= high_watermark]
        elif not self._open:
            return None
        candidates = [*self._open.values(), *(txn.first_offset for txn in self._unreplicated)]
        return min(candidates, default=None)

    def open_transactions(self, silent_since_ms: int | None = None) -> int:
        """How many transactions are open; with `silent_since_ms`, only those without a write since then."""
        if silent_since_ms is None or not self._open:
            return len(self._open)
        return sum(self._states[producer_id].last_used_ms < silent_since_ms for producer_id in self._open)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that were silent for too long; return how many."""
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


def _check_sequence(header: ProducerHeader, state: ProducerState) -> None:
    expected = _next_sequence(header.producer_epoch, state)
    if header.base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} is next"
        )


def _next_sequence(epoch: int, state: ProducerState) -> int:
    """A new epoch starts at 0, and so does the first write after a marker that raised the epoch."""
    continues = state.batches and epoch == state.epoch
    return (state.batches[-1].last_sequence + 1) & _LAST_SEQUENCE if continues else 0
