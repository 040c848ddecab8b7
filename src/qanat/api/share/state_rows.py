"""Rows of the four share state APIs: decided one by one, durable together; brokers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qanat.api.request_context import RequestContext
from qanat.groups.share.state_shard import StateRequest
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


class _Row(Protocol):
    partition: int


Row = TypeVar("Row", bound=_Row)
Row_co = TypeVar("Row_co", bound=_Row, covariant=True)
Result = TypeVar("Result")


class _Topic(Protocol[Row_co]):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[Row_co]: ...


def authorize_state(
    topics: Sequence[_Topic[Row]],
    access: AccessCheck,
    response: Callable[[list[Any]], Any],
    topic_row: Callable[[bytes, list[Any]], Any],
    row: Callable[[int, ErrorCode], Any],
) -> Verdict:
    """CLUSTER_ACTION on the cluster, or every row is refused."""
    if access.may_cluster(Operation.CLUSTER_ACTION):
        return access.grant()
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return access.deny(
        response(
            [topic_row(topic.topic_id, [row(one.partition, code) for one in topic.partitions]) for topic in topics]
        )
    )


async def store_each(
    topics: Sequence[_Topic[Row]],
    wanted: Callable[[bytes, Row], StateRequest],
    result: Callable[[int, ErrorCode], Result],
    context: RequestContext,
) -> list[tuple[bytes, list[Result]]]:
    """The result of every row, by topic.

    A piece of the rows is decided before its first answer is awaited: otherwise each row would wait for the disk alone.
    Not all rows at once: their answers come together, and would hold the loop.
    """
    states, yielder = context.broker.share_partitions.states, context.yielder
    found = [(bytes(topic.topic_id), list[Result]()) for topic in topics]
    rows = [
        (topic_id, row, into) for topic, (topic_id, into) in zip(topics, found, strict=True) for row in topic.partitions
    ]
    async for some in yielder.pieces(rows):
        answers = [await states.ask(wanted(topic_id, row)) for topic_id, row, _ in some]
        for (_, row, into), answer in zip(some, answers, strict=True):
            into.append(result(row.partition, (await answer).error))
    return found
