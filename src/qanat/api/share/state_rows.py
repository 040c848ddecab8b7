"""What requests to a keeper of share groups' state have in common: many rows, decided one by one, durable together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from qanat.api.request_context import RequestContext
from qanat.groups.share.state_shard import StateRequest
from qanat.model.error_codes import ErrorCode


class _Row(Protocol):
    partition: int


Row = TypeVar("Row", bound=_Row)
Row_co = TypeVar("Row_co", bound=_Row, covariant=True)
Told = TypeVar("Told")


class _Topic(Protocol[Row_co]):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[Row_co]: ...


async def outcomes(
    topics: Sequence[_Topic[Row]],
    wanted: Callable[[bytes, Row], StateRequest],
    told: Callable[[int, ErrorCode], Told],
    context: RequestContext,
) -> list[tuple[bytes, list[Told]]]:
    """What is told of every row, by topic. Some are decided before the first answer is waited for: else each would wait
    for the disk alone. Not all: their answers come together, and nobody else is served meanwhile."""
    states, yielder = context.broker.share_partitions.states, context.yielder
    found = [(bytes(topic.topic_id), list[Told]()) for topic in topics]
    rows = [
        (topic_id, row, into) for topic, (topic_id, into) in zip(topics, found, strict=True) for row in topic.partitions
    ]
    async for some in yielder.pieces(rows):
        answers = [await states.ask(wanted(topic_id, row)) for topic_id, row, _ in some]
        for (_, row, into), answer in zip(some, answers, strict=True):
            into.append(told(row.partition, (await answer).error))
    return found
