"""A shard: every transactional id of one partition of `__transaction_state`, deciding without waiting.

How the shell drives it; the rules behind this are in `decisions`:

    shard = TransactionShard(settings)
    for record in the partition:                     # load
        shard.apply(record)
    decision = shard.start(now)                      # what was prepared is to be finished

    decision = shard.decide(request, now)            # or tick(now), once next_deadline_ms() has come
    offset = append(decision.records)                # one batch, before anybody else may decide
    await durable(offset)                            # at least everything appended so far
    answer decision.reply; write decision.markers, then decide(MarkersWritten(...))
"""

from __future__ import annotations

from typing import assert_never

from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode
from qanat.transactions.adding import add, verify
from qanat.transactions.decisions import Decision
from qanat.transactions.ending import complete, end, on_timeout
from qanat.transactions.expiry import expire, schedule_next
from qanat.transactions.initialising import initialise
from qanat.transactions.ledger import Ledger
from qanat.transactions.looking import describe, list_transactions
from qanat.transactions.records import LedgerRecord
from qanat.transactions.replies import Reply, refused
from qanat.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersWritten,
    Request,
    VerifyPartitions,
)
from qanat.transactions.settings import TransactionSettings
from qanat.transactions.states import TransactionState
from qanat.transactions.turn import ShardState, TimerKind, Turn

LONGEST_ID = 8_000
"""Characters: the id must fit a record's key in UTF-8."""


class TransactionShard:
    """See the module."""

    __slots__ = ("_is_started", "_state")

    def __init__(self, settings: TransactionSettings) -> None:
        self._state = ShardState(settings)
        self._is_started = False

    def __repr__(self) -> str:
        return f"TransactionShard({len(self._state.ledger.records)} ids, {len(self._state.timers)} timers)"

    def apply(self, record: LedgerRecord) -> None:
        """Take a record from the log."""
        assert not self._is_started, "a shard that serves applies its own records"
        self._state.ledger.apply(record)

    def start(self, now: Now) -> Decision:
        """The log has been read: end what was prepared, and wait for the end of what is open."""
        assert not self._is_started
        self._is_started = True
        turn = Turn(self._state, now)
        for record in self._state.ledger.records.values():
            if record.state.is_prepared:
                turn.mark(record)
            elif record.state is TransactionState.ONGOING:
                turn.expect_end(record)
        schedule_next(turn)
        return turn.decision()

    def decide(self, request: Request, now: Now) -> Decision:
        """Answer a request."""
        assert self._is_started
        if not isinstance(request, ListTransactions) and not 0 < len(request.transactional_id) <= LONGEST_ID:
            return Decision(reply=refused(request, ErrorCode.INVALID_REQUEST))
        turn = Turn(self._state, now)
        return turn.decision(_answer(turn, request))

    def tick(self, now: Now) -> Decision:
        """Abort whatever has run out of time."""
        assert self._is_started
        turn = Turn(self._state, now)
        while (timer := self._state.timers.pop_due(now.steady_ms)) is not None:
            if timer.kind is TimerKind.EXPIRY:
                expire(turn)
            else:
                on_timeout(turn, timer.transactional_id)
        return turn.decision()

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, on the steady clock."""
        return self._state.timers.next_ms()

    @property
    def ledger(self) -> Ledger:
        """What is durable once every decision so far is; for looking at."""
        return self._state.ledger


def _answer(turn: Turn, request: Request) -> Reply:
    match request:
        case AddPartitions():
            return add(turn, request)
        case VerifyPartitions():
            return verify(turn, request)
        case EndTransaction():
            return end(turn, request)
        case MarkersWritten():
            return complete(turn, request)
        case InitProducer():
            return initialise(turn, request)
        case DescribeTransaction():
            return describe(turn, request)
        case ListTransactions():
            return list_transactions(turn, request)
    assert_never(request)
