"""When a connection is read from, and what that says about its silence: on a clock of the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from time import perf_counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import written_at
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.security.authentication import ANONYMOUS
from qanat.servers.push.connection import UNREAD_BYTES, PushConnection
from qanat.servers.push.producing import UNACKNOWLEDGED_BYTES, PushProducer, _Batch, _Row
from qanat.servers.push.server import PushServer
from qanat.wire.push.frames import FrameType, encode_frame

BEAT = encode_frame(FrameType.HEARTBEAT, 0)
APPEND_S = 15.0
"""How long an append may take whose leader does not answer."""


class Transport:
    """Keeps what is written, as a socket whose other end reads nothing."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, chunks: list[bytes]) -> None:
        self.written += b"".join(chunks)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Client:
    """A connection to a push server of its own, whose clock stands."""

    def __init__(self, broker: Broker, security: Any = None) -> None:
        self.now_s = 1_000.0
        self.server = PushServer(broker, cast(Any, None))
        self.server._time_s = lambda: self.now_s
        endpoint = SimpleNamespace(name="L", protocol="PLAINTEXT", security=security, is_authorized=False)
        self.connection: PushConnection = self.server.accept(cast(Any, endpoint), ANONYMOUS)
        self.transport = Transport()
        self.connection.connection_made(cast(Any, self.transport))

    def say(self, data: bytes) -> None:
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def pass_time(self, seconds: float) -> None:
        """The server looks after its connections once in each second."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += min(1.0, until_s - self.now_s)
            self.server._tick()

    @property
    def said(self) -> bytes:
        return self.transport.written


@contextlib.asynccontextmanager
async def connected(security: Any = None) -> AsyncIterator[Client]:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "storage.engine": "memory"}
    async with Node(load([flag(name, value, name) for name, value in settings.items()], None, {}).settings) as node:
        client = Client(node.broker, security)
        yield client
        client.connection.connection_lost(None)
        await client.server.close()


async def test_a_client_whose_frames_wait_is_not_silent() -> None:
    async with connected() as client:
        client.say(BEAT)
        for _ in range(4):
            over = asyncio.Event()
            client.connection.hold(_wait(over))
            client.pass_time(APPEND_S)
            over.set()
            await asyncio.sleep(0.01)

        client.pass_time(29.0)
        assert b"silent" not in client.said, "its heartbeats are heard from now on, and only from now on"
        client.pass_time(2.0)
        assert b'"silent"' in client.said


async def test_a_client_whose_frames_wait_gets_heartbeats() -> None:
    async with connected() as client:
        over = asyncio.Event()
        client.connection.hold(_wait(over))
        await asyncio.sleep(0)
        client.pass_time(60.0)

        assert client.said.count(BEAT) >= 5
        over.set()


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_client_that_reads_no_answer_is_not_read_from_and_silent_in_the_end(*, is_known: bool) -> None:
    """Otherwise what the broker has to say to it would grow with everything that it asks."""
    exchange = None if is_known else SimpleNamespace(is_authenticated=False)
    async with connected(SimpleNamespace(begin_authentication=lambda: exchange, login_guard=None)) as client:
        number = 0
        while client.transport.is_reading and number < UNREAD_BYTES:
            number += 1
            client.say(encode_frame(FrameType.HEARTBEAT, number))
            if len(client.transport.written) > client.transport.high:
                client.connection.pause_writing()

        assert len(client.transport.written) < (UNREAD_BYTES + 100 if is_known else 8 * 1024)
        client.pass_time(31.0)
        assert b'"silent"' in client.said


async def test_a_client_that_reads_its_answers_again_is_read_from_again() -> None:
    async with connected() as client:
        client.transport.written = bytes(2 * UNREAD_BYTES)
        client.connection.pause_writing()
        client.say(BEAT)
        was_reading = client.transport.is_reading
        client.transport.written = b""
        client.connection.resume_writing()

        assert (was_reading, client.transport.is_reading) == (False, True)


async def test_a_producer_whose_records_are_refused_late_is_read_from_again() -> None:
    """Nothing else would: no frame is handled, and no silence is seen, while nothing is read."""
    async with connected() as client:
        producer = client.connection.producer = PushProducer(client.connection)
        row = _Row(1, UNACKNOWLEDGED_BYTES, 0, None, b"", ())
        durable: SyncFuture[None] = SyncFuture()
        producer._unacknowledged = row.size
        producer._acknowledge(_Batch(TopicPartition("orders", 0), [row], perf_counter()), written_at(0, -1, durable))
        client.connection.regulate()
        was_reading = client.transport.is_reading
        durable.settle_with_fault(QanatError("the disk is full"))

        assert (was_reading, client.transport.is_reading) == (False, True)


async def _wait(over: asyncio.Event) -> None:
    await over.wait()
