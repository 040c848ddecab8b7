"""`qanat transaction list`: the transactional ids of every broker."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.wire.kafka.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from qanat.wire.kafka.registry import ApiKey

_LIST_COLUMNS = ("transaction", "state", "producer", "coordinator")


def list_transactions(
    *,
    state: Annotated[list[str] | None, Parameter(name=["--state", "-s"], negative="")] = None,
    longer_than: Annotated[float | None, Parameter(name="--longer-than")] = None,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """List transactional ids.

        qanat transaction list --state Ongoing --longer-than 60

    Parameters
    ----------
    state:
        Only ids in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.
    longer_than:
        Only transactions open for more than so many seconds.
    output:
        `table` for people, the others for programs.
    """

    print_rows(run(target, lambda cluster: listed(cluster, state or [], longer_than)), _LIST_COLUMNS, output)


async def listed(cluster: Cluster, states: list[str], longer_than: float | None) -> list[Row]:
    """The transactional ids of every broker, sorted."""
    deadline = cluster.deadline()
    rows: list[Row] = []
    for broker in (await cluster.metadata([], deadline)).brokers:
        link = await cluster.node_link(broker.node_id, deadline)
        request = ListTransactionsRequest(states, [], -1 if longer_than is None else round(longer_than * 1000))
        response: ListTransactionsResponse = await link.call(ApiKey.LIST_TRANSACTIONS, request, deadline)
        check(f"transactions of broker {broker.node_id}", response.error_code)
        if response.unknown_state_filters:
            raise WrongArgumentError(f"there is no state {response.unknown_state_filters[0]}")
        rows += [
            {
                "transaction": one.transactional_id,
                "state": one.transaction_state,
                "producer": one.producer_id,
                "coordinator": broker.node_id,
            }
            for one in response.transaction_states
        ]
    return sorted(rows, key=lambda row: str(row["transaction"]))
