"""A transaction as its coordinator describes it."""

from __future__ import annotations

from qanat.app.transactions.list import listed
from qanat.connection.cluster import Cluster, Kind
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError, check
from qanat.model.error_codes import ErrorCode
from qanat.model.spelling import did_you_mean
from qanat.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from qanat.wire.kafka.registry import ApiKey


async def describe_transaction(cluster: Cluster, transaction: str, deadline: Deadline) -> TransactionState:
    async def attempt() -> TransactionState:
        link = await cluster.coordinator_link(transaction, deadline, Kind.TRANSACTION)
        request = DescribeTransactionsRequest([transaction])
        response: DescribeTransactionsResponse = await link.call(ApiKey.DESCRIBE_TRANSACTIONS, request, deadline)
        (found,) = response.transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            names = [str(row["transaction"]) for row in await listed(cluster, [], None)]
            hint = did_you_mean(transaction, names, "qanat transaction list shows those that exist")
            raise RefusedError(found.error_code, f"there is no transactional id {transaction}{hint}")
        check(f"transaction {transaction}", found.error_code)
        return found

    return await cluster.persist(attempt, deadline)
