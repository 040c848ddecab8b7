"""The fast path of Fetch answers and waits as the ordinary path does, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import unpack_from
from typing import Any, cast

import pytest
from tests.servers.kafka.two_brokers import end_wait
from tests.servers.test_connection import PlayedTransport
from tests.wire.kafka.test_fast_fetch import framed

from qanat.api.api_table import ServedApi
from qanat.api.records.parked_response import ParkedResponse
from qanat.api.request_context import RequestContext
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.cluster.topics import decide_delete
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.testing import BrokerHere
from qanat.wire.kafka.fast_fetch import FIRST_VERSION
from qanat.wire.kafka.messages import fetch as codec
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

TOPIC = "orders"
LONG_MS = 60_000
SHORT_S = 0.05


def _handled(served: ServedApi, request: Any, context: RequestContext) -> Any:
    return served.handle(request, context)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - the transport is played: it sends no event
            await asyncio.sleep(0)


class Client:
    """A consumer's connection, whose socket is played."""

    def __init__(self, broker: BrokerHere, *, is_ordinary: bool = False) -> None:
        self.dispatcher = Dispatcher(broker.node.broker)
        if is_ordinary:
            self.dispatcher.interceptor = _handled
        self.faults: list[BaseException] = []
        self.transport = PlayedTransport()
        limits = ConnectionLimits(10_000, 100, 100_000)
        self.connection = KafkaConnection(
            self.dispatcher.handle, limits, lambda _: None, lambda _, fault: self.faults.append(fault)
        )
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def ask(self, offset: int = 0, wait_ms: int = 0, **more: Any) -> None:
        partition = FetchPartition(0, more.pop("epoch", -1), fetch_offset=offset, partition_max_bytes=1 << 20)
        fields = {"max_wait_ms": wait_ms, "min_bytes": 1, "isolation_level": 1, "session_epoch": -1}
        topics = [FetchTopic(more.pop("topic", TOPIC), partitions=[partition])]
        frame = framed(FetchRequest(**{**fields, "topics": topics, **more}))
        data = len(frame).to_bytes(4) + frame
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def answers(self) -> list[FetchResponse]:
        """Everything that was answered so far."""
        found, data, position = [], memoryview(self.transport.everything), 0
        while position < len(data):
            (size,) = unpack_from(">i", data, position)
            found.append(codec.read_response(data[position : position + 4 + size], FIRST_VERSION, position=8))
            position += 4 + size
        return found

    async def answered(self) -> None:
        await until(lambda: bool(self.transport.everything))

    async def answer(self) -> PartitionData:
        """The only answer, waited for."""
        await self.answered()
        (response,) = self.answers()
        return response.responses[0].partitions[0]

    @property
    def parked(self) -> int:
        return self.dispatcher.counters.by_api[ApiKey.FETCH].parked


@asynccontextmanager
async def running() -> AsyncIterator[BrokerHere]:
    async with BrokerHere() as broker:
        await broker.create_topic(TOPIC)
        yield broker


def coordinator_partition(broker: BrokerHere) -> Partition:
    found = broker.node.broker.lookup.led(TOPIC, 0)
    assert isinstance(found, Partition)
    return found


async def append(broker: BrokerHere, value: bytes = b"value", **more: Any) -> bytes:
    """One record in a batch of its own; returns the batch once it can be read."""
    batch = bytes(encode_batch([Record(0, 0, None, value)], **more))
    written = coordinator_partition(broker).append_now(bytearray(batch))
    assert written is not None
    if written.durable is not None:
        await written.durable
    return batch


@pytest.mark.parametrize(
    "asked",
    [
        {"offset": 0},
        {"offset": 1},
        {"offset": 2},
        {"offset": 2, "min_bytes": 0, "wait_ms": LONG_MS},
        {"offset": 1, "isolation_level": 0},
        {"offset": 0, "max_bytes": 0},
        {"offset": 0, "max_bytes": 70},
        {"offset": 3},
        {"offset": -1},
        {"offset": 0, "epoch": 99},
        {"offset": 0, "topic": "nowhere"},
    ],
    ids=str,
)
async def test_it_answers_as_the_long_way_does(asked: dict[str, Any]) -> None:
    async with running() as broker:
        for value in (b"first", b"second"):
            await append(broker, value)
        short, long = Client(broker), Client(broker, is_ordinary=True)
        for client in (short, long):
            client.ask(**asked)
            await client.answered()

        assert short.transport.everything == long.transport.everything
        counted = [one.dispatcher.counters.by_api[ApiKey.FETCH] for one in (short, long)]
        assert [(one.requests, one.request_bytes, one.response_bytes, one.parked) for one in counted[:1]] == [
            (one.requests, one.request_bytes, one.response_bytes, one.parked) for one in counted[1:]
        ]


async def test_who_is_at_the_end_is_answered_when_more_is_written() -> None:
    async with running() as broker:
        client = Client(broker)
        client.ask(wait_ms=LONG_MS)
        assert client.parked == 1
        batch = await append(broker)

        found = await client.answer()
        assert bytes(cast(Any, found.records))[61:] == batch[61:]
        assert (found.high_watermark, client.parked) == (1, 0)


async def test_little_is_waited_with_until_the_time_is_up() -> None:
    async with running() as broker:
        client = Client(broker)
        client.ask(wait_ms=300, min_bytes=10_000)
        await append(broker)
        await append(broker)
        assert client.transport.everything == b""

        assert (await client.answer()).high_watermark == 2
        assert client.parked == 0


async def test_enough_in_several_batches_is_answered_before_the_time_is_up() -> None:
    async with running() as broker:
        client = Client(broker)
        client.ask(wait_ms=LONG_MS, min_bytes=200)
        for _ in range(3):
            await append(broker)

        assert len(bytes(cast(Any, (await client.answer()).records))) >= 200


async def test_a_fetch_parked_at_a_deleted_topic_is_answered() -> None:
    async with running() as broker:
        client = Client(broker)
        client.ask(wait_ms=LONG_MS)
        await broker.node.broker.metadata_changes.carry_out(lambda image: decide_delete(image, TOPIC))

        assert (await client.answer()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.parked == 0


async def test_aborted_transactions_are_named() -> None:
    async with running() as broker:
        await begin_transaction(broker, 5)
        await abort_transaction(broker, 5)
        client, patient = Client(broker), Client(broker)
        client.ask()

        found = await client.answer()
        assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions or []] == [(5, 0)]
        patient.ask(offset=2, wait_ms=LONG_MS)
        await append(broker)
        assert (await patient.answer()).aborted_transactions == []


async def test_nothing_is_left_of_a_client_that_has_gone() -> None:
    async with running() as broker:
        client, partition = Client(broker), coordinator_partition(broker)
        client.ask(wait_ms=LONG_MS)
        client.connection.connection_lost(None)

        assert (client.parked, partition._waiting) == (0, {})
        await append(broker)
        await asyncio.sleep(0)
        assert client.transport.everything == b""


async def test_a_client_that_leaves_while_it_waits_is_counted() -> None:
    async with running() as broker:
        client = Client(broker)
        client.ask(wait_ms=LONG_MS)
        client.connection.connection_lost(None)

        counters = client.dispatcher.counters.by_api[ApiKey.FETCH]
        assert (counters.requests, counters.parked, counters.duration_s.count) == (1, 0, 0)
        assert counters.request_bytes > 0


# What is parked on the fast path and then needs the ordinary one.


async def begin_transaction(broker: BrokerHere, producer_id: int, value: bytes = b"value") -> None:
    coordinator_partition(broker).log.producers.requires_verification = False
    await append(broker, value, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


async def abort_transaction(broker: BrokerHere, producer_id: int) -> None:
    marked = coordinator_partition(broker).append_marker(EndMarker(producer_id, 0, 0, is_commit=False))
    if marked is not None:
        await marked


async def test_an_abort_while_it_waits_does_not_prolong_the_wait() -> None:
    async with running() as broker:
        await begin_transaction(broker, 5)
        client = Client(broker)
        client.ask(wait_ms=LONG_MS, min_bytes=10_000)
        await abort_transaction(broker, 5)
        await asyncio.sleep(SHORT_S)
        (parked,) = client.connection._cancellables
        end_wait(parked)

        found = await client.answer()
        assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions or []] == [(5, 0)]
        counters = client.dispatcher.counters.by_api[ApiKey.FETCH]
        assert (counters.requests, counters.parked, counters.duration_s.count) == (1, 0, 1)
        assert counters.duration_s.total >= SHORT_S > counters.loop_s


async def test_what_goes_on_on_the_ordinary_path_waits_for_the_rest_of_its_time() -> None:
    async with running() as broker:
        await begin_transaction(broker, 5)
        client = Client(broker)
        client.ask(wait_ms=LONG_MS, min_bytes=400)
        await abort_transaction(broker, 5)
        await asyncio.sleep(SHORT_S)
        await begin_transaction(broker, 6, bytes(400))  # Enough is written, and not enough of it may be read.
        await until(lambda: any(isinstance(one, ParkedResponse) for one in client.connection._cancellables))

        (waiting,) = client.connection._cancellables
        assert isinstance(waiting, ParkedResponse)
        assert 0 < waiting._parked.remaining_ms <= LONG_MS - SHORT_S * 1000
        assert (client.parked, client.transport.everything) == (1, b"")
        end_wait(waiting)
        assert [one.producer_id for one in (await client.answer()).aborted_transactions or []] == [5]
        assert client.parked == 0


async def test_answers_keep_their_order() -> None:
    async with running() as broker:
        await append(broker)
        client = Client(broker)
        client.ask(offset=1, wait_ms=LONG_MS)
        client.ask(offset=0)
        assert client.transport.everything == b""
        await append(broker, b"another")
        await until(lambda: len(client.answers()) == 2)

        sizes = [len(bytes(cast(Any, one.responses[0].partitions[0].records))) for one in client.answers()]
        assert sizes[1] == 73 < sizes[0]


async def test_a_bug_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker:
        client = Client(broker)
        client.ask(wait_ms=LONG_MS)

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(client.dispatcher._fetch_fast_path, "read", broken)
        await append(broker)
        await until(lambda: bool(client.faults))

        assert client.transport.is_aborted
