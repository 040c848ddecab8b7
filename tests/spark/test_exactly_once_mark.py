"""The number of the last micro-batch, which an exactly-once query commits for its group, and its expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.broker.coordinators.coordinator_shard import Clocks, CoordinatorShard
from qanat.groups.replies import DeleteGroupReply, FetchReply
from qanat.groups.requests import CommitOffsets, DeleteGroup, FetchOffsets, OffsetToCommit
from qanat.model.error_codes import ErrorCode
from qanat.spark.options.options import Access
from qanat.spark.sink.exactly_once import commit_once
from qanat.spark.sink.outgoing_columns import EncodedBatch, Target
from qanat.spark.sink.row_batches import Encoder
from qanat.testing import BrokerHere, EmbeddedBroker
from qanat.wire.compression import Codec

DAY_MS = 24 * 60 * 60 * 1000
GROUP, PLAIN = "qanat-spark-1", "readers"


def batches() -> Iterator[EncodedBatch]:
    rows = pa.RecordBatch.from_arrays([pa.array([b"a row"], pa.binary())], ["value"])
    return iter(Encoder(Target("orders", Codec.NONE, 1_000_000, has_headers=False), {"orders": 1}).encode(rows))


async def committed(broker: BrokerHere, group: str) -> list[int]:
    reply = await broker.node.broker.groups.ask(group, FetchOffsets(group))
    assert isinstance(reply, FetchReply)
    return [one.offset for one in reply.offsets]


def let_days_pass(broker: BrokerHere, days: int) -> None:
    """All coordinators look for old offsets and transactional ids, so many days later."""
    running = broker.node.broker
    hosts: list[CoordinatorShard[Any, Any, Any]] = [
        *running.groups.topic.loaded(),
        *running.transactions.topic.loaded(),
    ]
    for hosted in hosts:
        steady_ms, wall_ms = hosted.clocks
        hosted.clocks = Clocks(
            lambda now_ms=steady_ms: now_ms() + days * DAY_MS,  # type: ignore[misc]
            lambda now_ms=wall_ms: now_ms() + days * DAY_MS,  # type: ignore[misc]
        )
        hosted._tick()


async def test_an_interrupted_micro_batch_is_known_after_more_than_the_retention_of_offsets() -> None:
    async with EmbeddedBroker.here() as broker:
        await broker.create_topic("orders")
        access = Access(broker.bootstrap_servers)
        assert await asyncio.to_thread(commit_once, access, "id", GROUP, 41, batches())
        await broker.node.broker.groups.ask(PLAIN, CommitOffsets(PLAIN, (OffsetToCommit("orders", 0, 1),)))
        assert (await committed(broker, GROUP), await committed(broker, PLAIN)) == ([41], [1])

        let_days_pass(broker, 31)

        assert await committed(broker, PLAIN) == [], "an ordinary offset has expired"
        assert await committed(broker, GROUP) == [41]
        assert not await asyncio.to_thread(commit_once, access, "id", GROUP, 41, batches()), "it is there"
        deleted = await broker.node.broker.groups.ask(GROUP, DeleteGroup(GROUP))
        assert isinstance(deleted, DeleteGroupReply)
        assert deleted.error is ErrorCode.NONE
        assert await committed(broker, GROUP) == [], "an operator who drops a query may drop its mark"
