"""A shard: every transactional id of one partition of `__transaction_state`, deciding without waiting.

How the shell drives it; the rules behind this are in `decisions`:

    shard = TransactionShard(settings)
    for record in the partition:                     # load
        shard.apply(record)
    decision = shard.start(now)                      # prepared transactions are to be finished

    decision = shard.decide(request, now)            # or tick(now), once next_deadline_ms() has come
    offset = append(decision.records)                # one batch, before the next decision
    await durable(offset)                            # at least everything appended so far
    answer decision.reply; write decision.markers, then decide(MarkersWritten(...))
"""

from __future__ import annotations

from typing import assert_never

from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode
from qanat.transactions.add_partitions import add, verify
from qanat.transactions.decision_builder import DecisionBuilder, ShardState, TimerKind
from qanat.transactions.decisions import Decision
from qanat.transactions.describe import describe, list_transactions
from qanat.transactions.end_transaction import complete, end, on_timeout
from qanat.transactions.init_producer_id import initialise
from qanat.transactions.ledger import Ledger
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
from qanat.transactions.transactional_id_expiration import expire, schedule_next

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
        """Apply a record from the log."""
        assert not self._is_started, "a shard that serves applies its own records"
        self._state.ledger.apply(record)

    def start(self, now: Now) -> Decision:
        """The log has been read: end prepared transactions, and set the deadlines of open ones."""
        assert not self._is_started
        self._is_started = True
        builder = DecisionBuilder(self._state, now)
        for record in self._state.ledger.records.values():
            if record.state.is_prepared:
                builder.mark(record)
            elif record.state is TransactionState.ONGOING:
                builder.expect_end(record)
        schedule_next(builder)
        return builder.decision()

    def decide(self, request: Request, now: Now) -> Decision:
        """Answer a request."""
        assert self._is_started
        if not isinstance(request, ListTransactions) and not 0 < len(request.transactional_id) <= LONGEST_ID:
            return Decision(reply=refused(request, ErrorCode.INVALID_REQUEST))
        builder = DecisionBuilder(self._state, now)
        return builder.decision(_answer(builder, request))

    def tick(self, now: Now) -> Decision:
        """Abort transactions that have timed out."""
        assert self._is_started
        builder = DecisionBuilder(self._state, now)
        while (timer := self._state.timers.pop_due(now.steady_ms)) is not None:
            if timer.kind is TimerKind.EXPIRY:
                expire(builder)
            else:
                on_timeout(builder, timer.transactional_id)
        return builder.decision()

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, on the steady clock."""
        return self._state.timers.next_ms()

    @property
    def ledger(self) -> Ledger:
        """The ledger, durable once every decision so far is; for inspection."""
        return self._state.ledger


def _answer(builder: DecisionBuilder, request: Request) -> Reply:
    match request:
        case AddPartitions():
            return add(builder, request)
        case VerifyPartitions():
            return verify(builder, request)
        case EndTransaction():
            return end(builder, request)
        case MarkersWritten():
            return complete(builder, request)
        case InitProducer():
            return initialise(builder, request)
        case DescribeTransaction():
            return describe(builder, request)
        case ListTransactions():
            return list_transactions(builder, request)
    assert_never(request)
