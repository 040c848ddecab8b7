"""A connection whose other end has fallen silent is given up, so that the next request opens another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.connection.brokers import bad_broker

from qanat.connection.channel import _SILENT_S, Channel
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError
from qanat.wire.kafka.registry import ApiKey

LATE_S = _SILENT_S + 0.1


@asynccontextmanager
async def to_nobody() -> AsyncIterator[Channel]:
    """A channel to a server that takes everything and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            pass

    async with bad_broker(serve) as address:
        channel = await Channel.open(*address, "test", Deadline.after(5))
        try:
            yield channel
        finally:
            await channel.close()


async def ask(channel: Channel, seconds: float) -> None:
    with pytest.raises(OutOfTimeError, match="did not come in time"):
        await channel.call(ApiKey.METADATA, 9, [b""], Deadline.after(seconds))


async def test_it_is_not_used_again_once_its_oldest_request_is_given_up() -> None:
    async with to_nobody() as channel:
        await ask(channel, LATE_S)
        assert not channel.is_open


async def test_a_short_deadline_of_a_caller_does_not_end_it() -> None:
    async with to_nobody() as channel:
        await ask(channel, 0.05)
        assert channel.is_open


async def test_a_request_behind_one_that_may_take_long_does_not_end_it() -> None:
    async with to_nobody() as channel:
        joining = asyncio.create_task(ask(channel, LATE_S + 1))
        await asyncio.sleep(0)
        await ask(channel, LATE_S)
        assert channel.is_open, "a join of a group waits for its answer"
        await joining
        assert not channel.is_open
