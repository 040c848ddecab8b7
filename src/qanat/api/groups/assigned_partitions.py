"""Assigned partitions in a heartbeat's response: a row for each topic id."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from qanat.api.request_context import RequestContext
from qanat.groups.consumer.records import Partitions

Row = TypeVar("Row")


async def rows_by_topic(
    partitions: Partitions, row: Callable[[bytes, list[int]], Row], context: RequestContext
) -> list[Row]:
    rows: dict[bytes, list[int]] = {}
    async for at in context.yielder.over(partitions):
        rows.setdefault(at.topic_id, []).append(at.partition)
    return [row(topic_id, numbers) for topic_id, numbers in rows.items()]
