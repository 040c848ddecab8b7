"""ListTransactions (66): the transactional ids that this broker coordinates (KIP-664).

v0   by state and producer id    v1   only transactions that are open for longer (KIP-994)
v2   by a pattern of the transactional id (KIP-1152)
"""

from __future__ import annotations

from qanat.servers.kafka.dispatch import Context
from qanat.transactions import requests
from qanat.transactions.replies import ListReply
from qanat.transactions.states import KNOWN_LABELS
from qanat.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from qanat.wire.patterns import InvalidPatternError, pattern


def handle(request: ListTransactionsRequest, context: Context) -> object:
    return context.broker.park(_list(request, context))


async def _list(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    try:
        wanted = pattern(request.transactional_id_pattern or "(?s).*")
    except InvalidPatternError as fault:
        return ListTransactionsResponse(error_code=fault.code)
    asked = requests.ListTransactions(
        tuple(request.state_filters), tuple(request.producer_id_filters), request.duration_filter
    )
    replies = [reply for reply in await context.broker.transactions.ask_all(asked) if isinstance(reply, ListReply)]
    found = [record for reply in replies for record in reply.records if wanted.matches(record.transactional_id)]
    unknown = [name for name in request.state_filters if name not in KNOWN_LABELS]
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(record.transactional_id, record.producer_id, record.state.label) for record in found
        ],
    )
