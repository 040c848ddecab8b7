"""Administration of the cluster: brokers and transactions."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.kafka_gateway import TRANSACTION
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import PageQuery, page_of
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from qanat.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from qanat.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from qanat.wire.kafka.registry import ApiKey

_OPEN = "Ongoing"


class BrokerView(msgspec.Struct):
    """A broker."""

    node_id: int
    host: str
    port: int
    rack: str | None
    controller: bool


class ClusterView(msgspec.Struct):
    """The cluster."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerView]
    topics: int
    partitions: int


class BrokerPage(msgspec.Struct):
    """Brokers."""

    brokers: list[BrokerView]
    next_page_token: str | None


class LogDirectoryView(msgspec.Struct):
    """A data directory of a broker."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: int
    size_bytes: int


class BrokerDescription(BrokerView):
    """A broker with its data directories."""

    log_directories: list[LogDirectoryView]


class TransactionView(msgspec.Struct):
    """A transactional id."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionRow(TransactionView):
    """A transactional id in a listing."""

    started_at: int | None = None
    """Of an open transaction: milliseconds since 1970."""
    timeout_ms: int | None = None
    """Of an open transaction: after so long its coordinator aborts it."""


class TransactionsQuery(PageQuery, frozen=True):
    """Which transactions."""

    state: str | None = None
    """Only those in this state, such as `Ongoing`."""
    open_ms: Annotated[int, Meta(ge=0)] | None = None
    """Only transactions that have been open for so long."""
    search: str | None = None
    """Only transactional ids that contain this, whatever the case."""


class TransactionPage(msgspec.Struct):
    """Some transactional ids."""

    transactions: list[TransactionRow]
    next_page_token: str | None


class TransactionDescription(TransactionView):
    """A transactional id with its transaction."""

    producer_epoch: int
    timeout_ms: int
    started_at: int | None
    """Milliseconds since 1970; None where no transaction is open."""
    partitions: dict[str, list[int]]


class TransactionAborted(msgspec.Struct):
    """What was done."""

    transactional_id: str
    done: Literal["aborted"]


async def _cluster(exchange: Exchange) -> DescribeClusterResponse:
    response: DescribeClusterResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest()
    )
    check(response.error_code, "the cluster", response.error_message)
    return response


def _brokers(response: DescribeClusterResponse) -> list[BrokerView]:
    return [
        BrokerView(one.broker_id, one.host, one.port, one.rack, one.broker_id == response.controller_id)
        for one in sorted(response.brokers, key=lambda one: one.broker_id)
    ]


async def describe_cluster(exchange: Exchange) -> ClusterView:
    response = await _cluster(exchange)
    topics = exchange.context.broker.metadata.image.topics
    partitions = sum(len(topic.partitions) for topic in topics.values())
    return ClusterView(response.cluster_id, response.controller_id, _brokers(response), len(topics), partitions)


async def list_brokers(exchange: Exchange) -> BrokerPage:
    shown, token = page_of(_brokers(await _cluster(exchange)), lambda one: f"{one.node_id:010}", exchange.query)
    return BrokerPage(shown, token)


async def describe_broker(exchange: Exchange) -> BrokerDescription:
    text = exchange.path["broker"]
    found = [one for one in _brokers(await _cluster(exchange)) if str(one.node_id) == text]
    if not found:
        raise Problem(404, f"there is no broker {text[:50]}; GET /api/v1/brokers lists them")
    (one,) = found
    response: DescribeLogDirsResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(None), one.node_id
    )
    check(response.error_code, f"the data directories of broker {text}")
    directories = [
        LogDirectoryView(
            row.log_dir,
            row.total_bytes,
            row.usable_bytes,
            sum(len(topic.partitions) for topic in row.topics),
            sum(part.partition_size for topic in row.topics for part in topic.partitions),
        )
        for row in response.results
    ]
    return BrokerDescription(one.node_id, one.host, one.port, one.rack, one.controller, directories)


async def list_transactions(exchange: Exchange) -> TransactionPage:
    query: TransactionsQuery = exchange.query
    states = [query.state] if query.state else []
    request = ListTransactionsRequest(states, duration_filter=-1 if query.open_ms is None else query.open_ms)
    rows: list[TransactionRow] = []
    for node_id in sorted(exchange.context.broker.metadata.image.brokers):
        response: ListTransactionsResponse = await exchange.context.gateway.call(
            exchange.caller, ApiKey.LIST_TRANSACTIONS, request, node_id
        )
        check(response.error_code, "transactions")
        rows += [
            TransactionRow(one.transactional_id, one.producer_id, one.transaction_state)
            for one in response.transaction_states
            if query.search is None or query.search.lower() in one.transactional_id.lower()
        ]
    shown, token = page_of(rows, lambda one: one.transactional_id, query)
    for row in shown:
        if row.state == _OPEN:
            await _add_start(exchange, row)
    return TransactionPage(shown, token)


async def _add_start(exchange: Exchange, row: TransactionRow) -> None:
    try:
        found = await _transaction(exchange, row.transactional_id)
    except Problem:
        return  # It was forgotten meanwhile, or its coordinator moves.
    row.started_at = found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None
    row.timeout_ms = found.transaction_timeout_ms


async def _transaction(exchange: Exchange, name: str | None = None) -> TransactionState:
    name = exchange.path["transaction"] if name is None else name
    response: DescribeTransactionsResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller,
        name,
        ApiKey.DESCRIBE_TRANSACTIONS,
        DescribeTransactionsRequest([name]),
        lambda answer: int(answer.transaction_states[0].error_code),
        TRANSACTION,
    )
    found = response.transaction_states[0]
    check(found.error_code, f"transactional id {name}")
    return found


async def describe_transaction(exchange: Exchange) -> TransactionDescription:
    found = await _transaction(exchange)
    return TransactionDescription(
        found.transactional_id,
        found.producer_id,
        found.transaction_state,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
        {topic.topic: list(topic.partitions) for topic in found.topics},
    )


async def abort_transaction(exchange: Exchange) -> TransactionAborted:
    found = await _transaction(exchange)
    name = found.transactional_id
    if found.transaction_state != _OPEN:
        raise Problem(409, f"{name} has no open transaction: its state is {found.transaction_state}")
    # A producer that initializes aborts its predecessor's transaction; any producer of that name does.
    response: InitProducerIdResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller,
        name,
        ApiKey.INIT_PRODUCER_ID,
        InitProducerIdRequest(name, found.transaction_timeout_ms),
        lambda answer: int(answer.error_code),
        TRANSACTION,
    )
    check(response.error_code, f"the transaction of {name} cannot be aborted")
    return TransactionAborted(name, "aborted")


OPERATIONS = (
    Operation("GET", "/api/v1/cluster", describe_cluster, "The cluster", "cluster", answer=ClusterView),
    Operation("GET", "/api/v1/brokers", list_brokers, "List brokers", "cluster", query=PageQuery, answer=BrokerPage),
    Operation(
        "GET",
        "/api/v1/brokers/{broker}",
        describe_broker,
        "A broker and its data directories",
        "cluster",
        answer=BrokerDescription,
    ),
    Operation(
        "GET",
        "/api/v1/transactions",
        list_transactions,
        "List transactional ids",
        "cluster",
        query=TransactionsQuery,
        answer=TransactionPage,
    ),
    Operation(
        "GET",
        "/api/v1/transactions/{transaction}",
        describe_transaction,
        "Describe a transaction",
        "cluster",
        answer=TransactionDescription,
    ),
    Operation(
        "POST",
        "/api/v1/transactions/{transaction}/abort",
        abort_transaction,
        "Abort an open transaction",
        "cluster",
        answer=TransactionAborted,
    ),
)
