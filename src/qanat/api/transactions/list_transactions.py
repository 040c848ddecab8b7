"""ListTransactions (66): the transactional ids that this broker coordinates (KIP-664).

v0   by state and producer id    v1   only transactions that have been open for longer (KIP-994)
v2   by a pattern of the transactional id (KIP-1152)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.groups.client_regex import InvalidPatternError, pattern
from qanat.security.authorization import Operation
from qanat.transactions import requests
from qanat.transactions.replies import ListReply
from qanat.transactions.states import KNOWN_LABELS
from qanat.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: ListTransactionsRequest, access: AccessCheck) -> Verdict:
    """Transactional ids that the caller may not DESCRIBE are left out."""

    def complete(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            one
            for one in response.transaction_states
            if access.may_transactional_id(Operation.DESCRIBE, one.transactional_id)
        ]
        return response

    return access.grant(complete)


def handle(request: ListTransactionsRequest, context: RequestContext) -> object:
    return context.broker.park(_list(request, context))


async def _list(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    try:
        wanted = pattern(request.transactional_id_pattern or "(?s).*")
    except InvalidPatternError as fault:
        return ListTransactionsResponse(error_code=fault.code)
    yielder = context.yielder
    states = [name async for name in yielder.over(request.state_filters) if name in KNOWN_LABELS]
    unknown = [name async for name in yielder.over(request.state_filters) if name not in KNOWN_LABELS]
    if unknown and not states:
        return ListTransactionsResponse(unknown_state_filters=unknown)
    asked = requests.ListTransactions(
        tuple(dict.fromkeys(states)), frozenset(request.producer_id_filters), request.duration_filter
    )
    replies = await context.broker.transactions.ask_all(asked, yielder)
    records = [record for reply in replies if isinstance(reply, ListReply) for record in reply.records]
    found = [record async for record in yielder.over(records) if wanted.matches(record.transactional_id)]
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(record.transactional_id, record.producer_id, record.state.label) for record in found
        ],
    )
