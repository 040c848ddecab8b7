"""The connection at work on our own broker, and what it says about brokers that misbehave."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from tests.connection.brokers import bad_broker, our_cluster

from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.connection.batch_producer import produce
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.deadline import Deadline
from qanat.connection.faults import NotOfferedError, OutOfTimeError, RefusedError, UnreachableError
from qanat.connection.fetching import FetchLimits, fetch, whole_batches
from qanat.connection.offsets import EARLIEST, LATEST, list_bounds, list_offsets
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

IN_TIME_S = 60.0
LONG_S = 600.0
"""What nothing here may wait for."""


def batch(*values: bytes, timestamp: int = 1_000) -> bytearray:
    records = [Record(number, timestamp + number, None, value) for number, value in enumerate(values)]
    return encode_batch(records)


async def test_records_go_in_and_come_out() -> None:
    async with our_cluster() as cluster:
        deadline = cluster.deadline()
        offsets = await produce(cluster, "orders", {0: batch(b"a", b"b"), 1: batch(b"c")}, -1, deadline)
        again = await produce(cluster, "orders", {0: batch(b"d")}, -1, deadline)
        view = await cluster.topic("orders", deadline)
        link = await cluster.node_link(view.leaders[0], deadline)
        fetched = await fetch(link, "orders", {0: 1, 1: 0}, FetchLimits(), deadline)
        bounds = await list_bounds(cluster, view, deadline)

    assert (offsets, again) == ({0: 0, 1: 0}, {0: 2})
    values = {one.partition: [record.value for record in one.records] for one in fetched}
    assert values == {0: [b"b", b"d"], 1: [b"c"]}
    assert {one.partition: one.next_offset for one in fetched} == {0: 3, 1: 1}
    assert bounds == {0: (0, 3), 1: (0, 1), 2: (0, 0), 3: (0, 0)}


async def test_offsets_are_found_by_time() -> None:
    async with our_cluster() as cluster:
        await produce(cluster, "orders", {0: batch(b"a", b"b", b"c")}, -1, cluster.deadline())
        found = [
            (await list_offsets(cluster, "orders", {0: moment}, cluster.deadline()))[0].offset
            for moment in (EARLIEST, 1_001, 5_000, LATEST)
        ]

    assert found == [0, 1, -1, 3]


async def test_what_is_sent_without_acknowledgement_arrives() -> None:
    async with our_cluster() as cluster:
        assert await produce(cluster, "orders", {0: batch(b"a")}, 0, cluster.deadline()) == {}
        # Nobody says when it is there, and it can be read only once it is on disk.
        deadline = cluster.deadline()
        while (await list_offsets(cluster, "orders", {0: LATEST}, deadline))[0].offset < 1:
            await deadline.pause(0.01)


async def test_a_missing_topic_is_named_with_the_nearest() -> None:
    async with our_cluster() as cluster:
        await produce(cluster, "orders", {0: batch(b"a")}, -1, cluster.deadline())
        with pytest.raises(RefusedError, match="there is no topic ordres; did you mean orders") as caught:
            await cluster.topic("ordres", cluster.deadline())

    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_is_asked_for_once_until_something_goes_wrong() -> None:
    async def refuse() -> None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "no")

    async with our_cluster() as cluster:
        first = await cluster.known_topic("orders", cluster.deadline(), may_create=True)
        assert await cluster.known_topic("orders", cluster.deadline()) is first

        with pytest.raises(RefusedError):
            await cluster.persist(refuse, cluster.deadline())
        assert await cluster.known_topic("orders", cluster.deadline()) is not first


async def test_a_broken_connection_is_replaced() -> None:
    async with our_cluster() as cluster:
        link = await cluster.any_link(cluster.deadline())
        await link.close()
        answer = await cluster.metadata([], cluster.deadline())

    assert len(answer.brokers) == 1


async def test_requests_may_overtake_each_others_senders() -> None:
    async with our_cluster() as cluster:
        await produce(cluster, "orders", {0: batch(b"a")}, -1, cluster.deadline())
        answers = await asyncio.gather(*(cluster.metadata(["orders"], cluster.deadline()) for _ in range(20)))

    assert {answer.topics[0].name for answer in answers} == {"orders"}


async def test_an_api_that_is_not_offered_is_named() -> None:
    async with our_cluster() as cluster:
        link = await cluster.any_link(cluster.deadline())
        del link.offered[ApiKey.METADATA]
        with pytest.raises(NotOfferedError, match="does not offer Metadata"):
            link.version_of(ApiKey.METADATA)
        link.offered[ApiKey.METADATA] = (90, 99)
        with pytest.raises(NotOfferedError, match="in versions 90 to 99"):
            link.version_of(ApiKey.METADATA)


async def test_nobody_listening_is_said_at_once() -> None:
    async with asyncio.timeout(IN_TIME_S), Cluster([("127.0.0.1", 1)], timeout_s=LONG_S) as cluster:
        with pytest.raises(UnreachableError, match=r"cannot connect to 127\.0\.0\.1:1: nothing listens there"):
            await cluster.call(ApiKey.METADATA, None)


async def test_a_silent_broker_costs_bounded_time() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with bad_broker(hold) as address, Cluster([address], timeout_s=1.0) as cluster:
        with pytest.raises(UnreachableError, match="accepts connections but does not answer"):
            await cluster.metadata([], cluster.deadline())


async def test_a_server_of_another_kind_is_recognised() -> None:
    async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with bad_broker(answer_http) as address, Cluster([address]) as cluster:
        with pytest.raises(UnreachableError, match="not Kafka's protocol"):
            await cluster.metadata([], cluster.deadline())


async def test_an_old_broker_says_its_versions_in_version_zero() -> None:
    async def answer_old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for error in (35, 0):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            correlation = (await reader.readexactly(size))[4:8]
            body = correlation + struct.pack(">hi", error, 1) + struct.pack(">hhh", 18, 0, 2)
            writer.write(struct.pack(">i", len(body)) + body)
        await reader.read()

    async with bad_broker(answer_old) as address, Cluster([address]) as cluster:
        link = await cluster.any_link(cluster.deadline())

    assert link.offered == {18: (0, 2)}


async def test_a_deadline_ends_what_takes_too_long() -> None:
    with pytest.raises(OutOfTimeError, match="rain did not come in time"):
        await Deadline.after(0.01).bound(asyncio.sleep(60), "rain")


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    data = bytes(batch(b"a")) + bytes(batch(b"b"))

    assert [len(list(whole_batches(data[:size]))) for size in (0, 60, 80, len(data) - 1, len(data))] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
    ],
)
def test_bootstrap_addresses_are_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", "a:b", ":9092", "a:0", "a:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host:port"):
        parse_bootstrap(text)


async def test_who_knows_that_a_cluster_is_there_waits_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    settings = NodeSettings(storage_engine="memory", broker=BrokerSettings(port=port))
    async with (
        Cluster([("127.0.0.1", port)], timeout_s=30, bootstrap_timeout_s=30) as patient,
        asyncio.TaskGroup() as group,
    ):
        asking = group.create_task(patient.call(ApiKey.METADATA, MetadataRequest([])))
        async with Cluster([("127.0.0.1", port)], timeout_s=30) as hasty:
            with pytest.raises(UnreachableError, match="nothing listens there"):
                await hasty.call(ApiKey.METADATA, MetadataRequest([]))
        async with Node(settings):
            assert (await asking).brokers


async def test_a_broker_that_falls_silent_costs_a_question_only_a_part_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qanat.connection.cluster._SILENT_S", 0.3)
    asked = asyncio.Event()

    async def fall_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say which versions there are, as every broker does, and nothing after that."""
        size = int.from_bytes(await reader.readexactly(4))
        frame = await reader.readexactly(size)
        reply = _versions_reply(frame)
        writer.write(len(reply).to_bytes(4) + reply)
        await reader.readexactly(4)
        asked.set()
        await reader.read()

    settings = NodeSettings(storage_engine="memory", broker=BrokerSettings(port=0))
    async with (
        Node(settings) as node,
        bad_broker(fall_silent) as silent,
        Cluster([silent, ("127.0.0.1", node.listener.port)], timeout_s=LONG_S) as cluster,
        asyncio.timeout(IN_TIME_S),
    ):
        answer = await cluster.metadata([], cluster.deadline())
        again = await cluster.metadata([], cluster.deadline())

    assert asked.is_set()
    assert [len(one.brokers) for one in (answer, again)] == [1, 1]


def _versions_reply(frame: bytes) -> bytes:
    """An ApiVersions answer (version 3) that offers Metadata; the header is the correlation id alone."""
    metadata = struct.pack(">hhhB", 3, 0, 12, 0)
    return frame[4:8] + struct.pack(">hB", 0, 2) + metadata + struct.pack(">iB", 0, 0)
