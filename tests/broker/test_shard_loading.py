"""A coordinator that has not read its topic to the end answers no request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qanat.broker.coordinators import shard_loading
from qanat.groups.replies import FetchReply
from qanat.groups.requests import CommitOffsets, FetchOffsets, OffsetToCommit
from qanat.log.log_reads import LogRead
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.testing import BrokerHere, EmbeddedBroker

GROUP = "readers"


async def fetch(broker: BrokerHere) -> FetchReply:
    reply = await broker.node.broker.groups.ask(GROUP, FetchOffsets(GROUP))
    assert isinstance(reply, FetchReply)
    return reply


async def test_a_group_is_asked_to_come_again_while_its_offsets_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedBroker.here(data_dir=tmp_path) as broker:
        await broker.create_topic("orders")
        await broker.node.broker.groups.ask(GROUP, CommitOffsets(GROUP, (OffsetToCommit("orders", 0, 17),)))

    disk, read = asyncio.Event(), LogRuntime.read

    async def read_slowly(
        runtime: LogRuntime, log: PartitionLog, offset: int, max_bytes: int, end_offset: int | None = None
    ) -> LogRead:
        await disk.wait()
        return await read(runtime, log, offset, max_bytes, end_offset)

    monkeypatch.setattr(LogRuntime, "read", read_slowly)
    monkeypatch.setattr(shard_loading, "LOAD_WAIT_S", 0.01)
    async with EmbeddedBroker.here(data_dir=tmp_path) as broker:
        for _ in range(3):
            assert (await fetch(broker)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        disk.set()
        monkeypatch.setattr(shard_loading, "LOAD_WAIT_S", 60.0)
        reply = await fetch(broker)
        assert reply.error is ErrorCode.NONE
        assert [one.offset for one in reply.offsets] == [17]


async def test_a_group_without_anything_to_read_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_loading, "LOAD_WAIT_S", 60.0)
    async with EmbeddedBroker.here() as broker:
        assert (await fetch(broker)).error is ErrorCode.NONE


async def test_shards_are_loaded_without_being_asked(tmp_path: Path) -> None:
    async with EmbeddedBroker.here(data_dir=tmp_path) as broker:
        await broker.create_topic("orders")
        await broker.node.broker.groups.ask(GROUP, CommitOffsets(GROUP, (OffsetToCommit("orders", 0, 17),)))
    async with EmbeddedBroker.here(data_dir=tmp_path) as broker, asyncio.timeout(60):
        while not broker.node.broker.groups.loaded():  # noqa: ASYNC110 - it happens by itself
            await asyncio.sleep(0.01)
