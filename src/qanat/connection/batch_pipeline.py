"""Batches of one partition on their way to its leader: sequence numbers, order, retries. Pure.

Several batches are in flight at a time. The broker writes a batch only after the one before it, by the sequence
numbers of an idempotent producer, and recognizes the last five of them when they come again. That is enough to lose
nothing, to write nothing twice, and to keep the order, whatever is lost on the way, as long as the sender
keeps these rules:

Rule 1: a batch gets its numbers when it is first sent, and keeps them while the broker may have it.
Rule 2: after a failure nothing is sent until every batch in flight has an outcome; then those that failed
go again, in their order.
Rule 3: until a batch is acknowledged, after a failure and in a new epoch, one batch is in flight. A broker that knows
nothing of a producer accepts any number, so a second batch could overtake the first.
Rule 4: a number that the broker finds out of order is no news while an earlier batch has no outcome. Otherwise there
is a gap: a batch was given up, or the broker lost its state. Only then the producer's epoch is bumped, in this
partition, and numbers start at 0 (KIP-360). A transactional producer aborts instead; numbers that a caller without an
identity wrote himself are the caller's to change.
Rule 5: a batch whose earlier attempt was lost is not sent under another epoch: that attempt may still arrive before,
and the broker could not tell. It fails as one that may be written.
Rule 6: a batch that is refused for good leaves its numbers to the next one, if no attempt of it was lost and nothing
was sent behind it. So a refusal costs a transaction nothing but the batch.

The shell is `pipelined_producer`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from qanat.connection.faults import RETRIABLE
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.records import INT32_MAX

WINDOW = 5
"""Batches of a partition in flight: as many as a broker remembers of a producer."""
EPOCH_MAX = 2**15 - 1
NONE = -1


class Outcome(Enum):
    """What became of an attempt."""

    WRITTEN = auto()
    REFUSED_FOR_NOW = auto()
    """Not written; it may be a moment later."""
    LOST = auto()
    """No answer: it may be written or not."""
    OUT_OF_ORDER = auto()
    """Not written: the broker expects other numbers, or does not know the producer."""
    REFUSED = auto()
    """Not written, and never will be."""


_OUTCOMES = {
    ErrorCode.NONE: Outcome.WRITTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Outcome.WRITTEN,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Outcome.OUT_OF_ORDER,
    ErrorCode.UNKNOWN_PRODUCER_ID: Outcome.OUT_OF_ORDER,
    ErrorCode.INVALID_PRODUCER_EPOCH: Outcome.OUT_OF_ORDER,
    # Written by the leader, but not by enough followers in time; its followers may still catch up.
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Outcome.LOST,
    ErrorCode.REQUEST_TIMED_OUT: Outcome.LOST,
    # Another broker named it as the leader: a new topic, which it does not know yet.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Outcome.REFUSED_FOR_NOW,
    ErrorCode.UNKNOWN_TOPIC_ID: Outcome.REFUSED_FOR_NOW,
    ErrorCode.KAFKA_STORAGE_ERROR: Outcome.REFUSED_FOR_NOW,
    ErrorCode.NETWORK_EXCEPTION: Outcome.LOST,
    # A broken link between us: the bytes that we hold are whole.
    ErrorCode.CORRUPT_MESSAGE: Outcome.REFUSED_FOR_NOW,
}


def outcome_of(code: ErrorCode) -> Outcome:
    """What an answer with that code means for a batch."""
    found = _OUTCOMES.get(code)
    if found is not None:
        return found
    return Outcome.REFUSED_FOR_NOW if code in RETRIABLE else Outcome.REFUSED


class Pending:
    """A closed batch until it has its outcome."""

    __slots__ = (
        "at",
        "attempts",
        "batch",
        "count",
        "epoch",
        "expires_at",
        "fault",
        "may_be_written",
        "number",
        "on_done",
        "producer_id",
        "retries",
        "sequence",
        "split",
    )

    def __init__(
        self,
        at: TopicPartition,
        batch: bytearray | memoryview,
        count: int,
        expires_at: float,
        on_done: Callable[[Pending, int, int], None],
    ) -> None:
        self.at = at
        self.batch = batch
        self.count = count
        self.expires_at = expires_at
        self.on_done = on_done
        """Called once, with its base offset and the broker's time of appending, each -1 if unknown; `fault` is set
        where it failed."""
        self.producer_id = NONE
        self.epoch = NONE
        self.sequence = NONE
        """None where it was never sent, or where it was refused for good and nothing of it is left."""
        self.split: Callable[[Pending], list[Pending]] | None = None
        """Makes parts of it, where it can be sent in parts."""
        self.number: tuple[int, ...] = ()
        """Its place among the partition's batches; a part has its whole's place, and its own behind it."""
        self.attempts = 0
        self.retries = 0
        """Attempts that a broker took, and did not acknowledge."""
        self.may_be_written = False
        self.fault: QanatError | None = None
        """The last reason why it is not written."""


class BatchPipeline:
    """The batches of one partition, in order. Times are arguments, on one clock."""

    def __init__(
        self, producer_id: int = NONE, epoch: int = NONE, *, is_transactional: bool = False, window: int = WINDOW
    ) -> None:
        """Without a producer id there are no numbers, and one batch is in flight: a second could overtake it."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.is_transactional = is_transactional
        self._widest = window if producer_id != NONE else 1
        self._window = 1
        self._next_sequence = 0
        self._added = 0
        self._waiting: deque[Pending] = deque()
        self._in_flight: list[Pending] = []
        self._failed: list[Pending] = []
        """Batches whose last attempt failed while others were in flight."""
        self._has_gap = False
        self._given_up: list[Pending] = []
        self.not_before = 0.0
        """When the next retry may go."""
        self.wants_producer_id = False
        """No epoch is left: nothing is sent before `identify`."""

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._in_flight and not self._failed and not self._given_up

    @property
    def has_room(self) -> bool:
        """Whether another batch would be sent at once."""
        return not self._waiting and not self._failed and len(self._in_flight) < self._window

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def expires_at(self) -> float:
        """When the first batch expires that waits; infinite where none does."""
        return self._waiting[0].expires_at if self._waiting else float("inf")

    def add(self, pending: Pending) -> None:
        self._added += 1
        pending.number = (self._added,)
        self._waiting.append(pending)

    def identify(self, producer_id: int, epoch: int) -> None:
        """Take another identity; numbers start at 0, also of batches that have some."""
        self.producer_id = producer_id
        self._restart(epoch)
        self.wants_producer_id = False

    def take(self, now: float) -> Pending | None:
        """The batch to send now, which is in flight from here on."""
        if not self._waiting or self._failed or self.wants_producer_id or now < self.not_before:
            return None
        if len(self._in_flight) >= self._window:
            return None
        pending = self._waiting.popleft()
        if self.producer_id != NONE and pending.sequence == NONE:
            pending.producer_id, pending.epoch, pending.sequence = self.producer_id, self.epoch, self._next_sequence
            self._next_sequence = (self._next_sequence + pending.count) & INT32_MAX
        pending.attempts += 1
        self._in_flight.append(pending)
        return pending

    def settle(self, pending: Pending, outcome: Outcome, retry_at: float) -> bool:
        """Take the outcome of an attempt; returns whether it is the batch's last one."""
        is_first = self._in_flight[0] is pending and not self._failed
        self._in_flight.remove(pending)
        is_done = self._take_outcome(pending, outcome, is_first, retry_at)
        if not self._in_flight and self._failed:
            self._recover()
        return is_done

    def _take_outcome(self, pending: Pending, outcome: Outcome, is_first: bool, retry_at: float) -> bool:
        if outcome is Outcome.WRITTEN:
            self._window = self._widest
            return True
        if outcome is Outcome.REFUSED:
            self._window = 1
            self._take_numbers_back(pending)
            return True
        if outcome is Outcome.OUT_OF_ORDER:
            if is_first and (self.is_transactional or self.producer_id == NONE):
                return True
            self._has_gap |= is_first
        elif outcome is Outcome.LOST:
            pending.may_be_written = True
        # A batch that only came behind a failed one need not wait for itself.
        if is_first:
            self.not_before = retry_at
        self._failed.append(pending)
        return False

    def _take_numbers_back(self, refused: Pending) -> None:
        behind = (refused.sequence + refused.count) & INT32_MAX
        is_last = refused.epoch == self.epoch and behind == self._next_sequence
        if refused.sequence != NONE and is_last and not refused.may_be_written:
            self._next_sequence, refused.sequence = refused.sequence, NONE

    def _recover(self) -> None:
        """Nothing is in flight: what failed goes again, in order, one by one at first."""
        self._failed.sort(key=_number)
        self._waiting.extendleft(reversed(self._failed))
        self._failed.clear()
        self._window = 1
        if self._has_gap:
            self._given_up += [one for one in self._waiting if one.may_be_written]
            self._waiting = deque(one for one in self._waiting if not one.may_be_written)
            if self.epoch >= EPOCH_MAX:
                self.wants_producer_id = True
            else:
                self._restart(self.epoch + 1)

    def _restart(self, epoch: int) -> None:
        self.epoch = epoch
        self._next_sequence = 0
        self._has_gap = False
        self._window = 1
        for pending in self._waiting:
            pending.sequence = NONE

    def split(self, pending: Pending, parts: list[Pending]) -> None:
        """Send a batch that was refused as too large in parts, which take its place and its numbers."""
        self._in_flight.remove(pending)
        sequence = pending.sequence
        for place, part in enumerate(parts):
            part.number = (*pending.number, place)
            part.producer_id, part.epoch, part.sequence = pending.producer_id, pending.epoch, sequence
            if sequence != NONE:
                sequence = (sequence + part.count) & INT32_MAX
        self._failed += parts
        if not self._in_flight:
            self._recover()

    def expire(self, now: float) -> list[Pending]:
        """Give up what waits for too long, and what cannot go again; what is in flight has its own time limit."""
        expired, self._given_up = self._given_up, []
        if not self._waiting or self._waiting[0].expires_at > now:
            return expired
        expired += [one for one in self._waiting if one.expires_at <= now]
        self._waiting = deque(one for one in self._waiting if one.expires_at > now)
        return expired

    def fail_all(self, *, is_closed: bool = False) -> list[Pending]:
        """Give up everything that is not in flight; after the end of all requests, that as well."""
        left = [*self._given_up, *self._failed, *self._waiting]
        self._given_up.clear()
        if is_closed:
            left += self._in_flight
            self._in_flight.clear()
        self._failed.clear()
        self._waiting.clear()
        return left


def _number(pending: Pending) -> tuple[int, ...]:
    return pending.number
