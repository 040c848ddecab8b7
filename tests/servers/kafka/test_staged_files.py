"""Staged files: clients name a file on the broker's machine instead of sending batches; a real broker, a real disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from tests.log.batches import batch

from qanat.connection.batch_producer import BatchProducer, produce
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.faults import RefusedError
from qanat.connection.security import UNPROTECTED, Security, security_of
from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.staged import FILE_BYTES_MAX, hide, staged_batch
from qanat.wire.staged_upload import DROPPED, upload_batch

FOLDER = "some-query-batch-0"
NAMES = [f"{FOLDER}/{number:032x}" for number in range(10)]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(data_dir: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir=data_dir) as running:
        yield running


@pytest.fixture
def place(data_dir: Path, broker: EmbeddedBroker) -> Path:
    (found,) = data_dir.glob("broker-*")
    (found / "staging" / FOLDER).mkdir(parents=True, exist_ok=True)
    return found / "staging"


def stage(place: Path, name: str, values: list[bytes], *, spoil: bool = False) -> bytearray:
    """A file with a batch for each value; what to send for it."""
    content = bytearray()
    for value in values:
        one = bytearray(batch([(None, value)]))
        hide(one)
        content += one
    if spoil:
        content[-1] ^= 1
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(content)
    return staged_batch(name, len(values))


def run(broker: EmbeddedBroker, work: object, security: Security = UNPROTECTED) -> object:
    async def main() -> object:
        async with Cluster(parse_bootstrap(broker.bootstrap_servers), security=security) as cluster:
            return await work(cluster)  # type: ignore[operator]

    return asyncio.run(main())


def seen(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    """What librdkafka reads that was committed, with its checksums looked at."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "check.crcs": True}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while (message := consumer.poll(20)) is not None:
            fault = message.error()
            if fault is not None:
                assert fault.code() == KafkaError._PARTITION_EOF, fault
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()
    raise AssertionError("the partition ends somewhere")


@pytest.mark.parametrize("is_committed", [True, False])
def test_files_in_a_transaction_are_seen_together_or_not_at_all(
    broker: EmbeddedBroker, place: Path, is_committed: bool
) -> None:
    topic = f"txn-{is_committed}".lower()
    broker.create_topic(topic, partitions=1)

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        producer = await BatchProducer.transactional(cluster, topic, 60_000, deadline)
        first, second = stage(place, NAMES[0], [b"a", b"b"]), stage(place, NAMES[1], [b"d", b"e", b"f"])
        assert await producer.send(topic, {0: first}, deadline) == {0: 0}
        assert await producer.send(topic, {0: bytearray(batch([(None, b"c")]))}, deadline) == {0: 2}
        assert await producer.send(topic, {0: second}, deadline) == {0: 3}
        assert await asyncio.to_thread(seen, broker, topic) == []
        await producer.end(deadline, is_committed=is_committed)

    run(broker, work)

    assert seen(broker, topic) == ([b"a", b"b", b"c", b"d", b"e", b"f"] if is_committed else [])
    assert not (place / FOLDER).exists()


@pytest.mark.parametrize("acks", [1, -1])
def test_a_file_without_a_producer_is_appended_with_each_acks(broker: EmbeddedBroker, place: Path, acks: int) -> None:
    topic = f"plain{acks}"
    broker.create_topic(topic, partitions=1)

    def work(cluster: Cluster) -> object:
        return produce(cluster, topic, {0: stage(place, NAMES[2], [b"x", b"y"])}, acks, cluster.deadline())

    assert run(broker, work) == {0: 0}
    assert seen(broker, topic) == [b"x", b"y"]


def refusal(broker: EmbeddedBroker, topic: str, sent: bytearray) -> RefusedError:
    def work(cluster: Cluster) -> object:
        return produce(cluster, topic, {0: sent}, -1, cluster.deadline())

    with pytest.raises(RefusedError) as fault:
        run(broker, work)
    return fault.value


def test_what_cannot_be_taken_over_is_refused_in_words_and_changes_nothing(broker: EmbeddedBroker, place: Path) -> None:
    broker.create_topic("odd", partitions=1)
    (place.parent / "secret").write_text("not yours")
    twisted = staged_batch(NAMES[0], 1)
    twisted[-1] ^= 1

    for topic, sent, code, reason in [
        ("odd", staged_batch(NAMES[3], 1), ErrorCode.RESOURCE_NOT_FOUND, "there is no staged file"),
        ("odd", staged_batch("../secret", 1), ErrorCode.INVALID_RECORD, "no name of a staged file"),
        ("odd", staged_batch(f"{FOLDER}/{'f' * 31}/", 1), ErrorCode.INVALID_RECORD, "no name of a staged file"),
        ("odd", twisted, ErrorCode.CORRUPT_MESSAGE, "checksum"),
        ("odd", stage(place, NAMES[4], [b"a", b"b"], spoil=True), ErrorCode.CORRUPT_MESSAGE, "checksum mismatch"),
    ]:
        fault = refusal(broker, topic, sent)
        assert (fault.code, reason in str(fault)) == (code, True), str(fault)

    assert not broker.records("odd")
    assert (place / NAMES[4]).exists()
    (place / NAMES[4]).unlink()


def test_a_client_that_may_not_write_takes_over_no_file(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path, users={"alice": "secret"}) as broker:
        broker.create_topic("orders")
        broker.allow("alice", "describe", topic="orders")
        (found,) = tmp_path.glob("broker-*")
        (found / "staging" / FOLDER).mkdir(parents=True)
        sent = stage(found / "staging", NAMES[0], [b"x"])
        settings = broker.client_settings("alice")
        del settings["bootstrap.servers"]

        def work(cluster: Cluster) -> object:
            return produce(cluster, "orders", {0: sent}, -1, cluster.deadline())

        with pytest.raises(RefusedError) as fault:
            run(broker, work, security_of(settings))
        assert fault.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (found / "staging" / NAMES[0]).exists()
        assert not broker.records("orders")
        broker.allow("alice", "write", topic="orders")
        assert run(broker, work, security_of(settings)) == {0: 0}


def test_what_was_taken_over_is_there_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic("kept", partitions=1)
        (found,) = tmp_path.glob("broker-*")
        (found / "staging" / FOLDER).mkdir(parents=True)
        sent = stage(found / "staging", NAMES[0], [b"x"] * 50)
        run(broker, lambda cluster: produce(cluster, "kept", {0: sent}, -1, cluster.deadline()))
        left = stage(found / "staging", NAMES[1], [b"y"] * 50)
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        assert seen(broker, "kept") == [b"x"] * 50
        run(broker, lambda cluster: produce(cluster, "kept", {0: left}, -1, cluster.deadline()))
        assert seen(broker, "kept") == [b"x"] * 50 + [b"y"] * 50


def upload(broker: EmbeddedBroker, topic: str, name: str, values: list[bytes], chunk_bytes: int = 50) -> bytearray:
    """A file with a batch for each value, at the partition's leader; what to send for it."""
    content = b""
    for value in values:
        one = bytearray(batch([(None, value)]))
        hide(one)
        content += one

    async def work(cluster: Cluster) -> None:
        for at in range(0, len(content), chunk_bytes):
            piece = content[at : at + chunk_bytes]
            found = await produce(cluster, topic, {0: upload_batch(name, at, [piece])}, -1, cluster.deadline())
            assert found == {0: at + len(piece)}

    run(broker, work)
    return staged_batch(name, len(values))


@pytest.mark.parametrize("is_committed", [True, False])
def test_uploads_in_a_transaction_are_seen_together_or_not_at_all(
    broker: EmbeddedBroker, place: Path, is_committed: bool
) -> None:
    topic = f"uploaded-{is_committed}".lower()
    broker.create_topic(topic, partitions=1, configs={"compression.type": "gzip"})
    first, second = (upload(broker, topic, NAMES[at], [b"a", b"b", b"c"]) for at in (5, 6))

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        producer = await BatchProducer.transactional(cluster, topic, 60_000, deadline)
        assert await producer.send(topic, {0: first}, deadline) == {0: 0}
        assert await producer.send(topic, {0: second}, deadline) == {0: 3}
        assert await asyncio.to_thread(seen, broker, topic) == []
        await producer.end(deadline, is_committed=is_committed)

    run(broker, work)

    assert seen(broker, topic) == ([b"a", b"b", b"c"] * 2 if is_committed else [])
    assert not list(place.rglob("*/0*"))


def test_a_broker_in_memory_takes_uploads(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("kept", partitions=1)
        sent = upload(broker, "kept", NAMES[0], [b"x"] * 5)
        run(broker, lambda cluster: produce(cluster, "kept", {0: sent}, -1, cluster.deadline()))
        assert seen(broker, "kept") == [b"x"] * 5


def test_uploads_are_there_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic("kept", partitions=1)
        sent = upload(broker, "kept", NAMES[0], [b"x"] * 5)
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        run(broker, lambda cluster: produce(cluster, "kept", {0: sent}, -1, cluster.deadline()))
        assert seen(broker, "kept") == [b"x"] * 5


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (upload_batch(NAMES[7], 10, [b"x"]), ErrorCode.RESOURCE_NOT_FOUND, "not on this broker up to byte 10"),
        (upload_batch("../../secret", 0, [b"x"]), ErrorCode.INVALID_RECORD, "no name of a staged file"),
        (upload_batch(NAMES[7], FILE_BYTES_MAX, [b"x"]), ErrorCode.INVALID_RECORD, "at most"),
        (upload_batch(NAMES[7], 0, [b"x"]) + b"y", ErrorCode.CORRUPT_MESSAGE, "wrong length"),
    ],
)
def test_chunks_that_cannot_be_stored_are_refused_in_words(
    broker: EmbeddedBroker, place: Path, sent: bytearray, code: ErrorCode, reason: str
) -> None:
    if "uploads" not in broker.topics():
        broker.create_topic("uploads", partitions=1)
    fault = refusal(broker, "uploads", sent)
    assert (fault.code, reason in str(fault)) == (code, True), str(fault)
    assert not (place / NAMES[7]).exists()


def test_who_may_not_write_to_a_topic_may_not_upload_for_it(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": "StandardAuthorizer"}
    with EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker:
        broker.create_topic("secret", partitions=1)
        for sent in (upload_batch(NAMES[0], 0, [b"x"]), upload_batch(NAMES[0], DROPPED), staged_batch(NAMES[0], 1)):
            request = ProduceRequest(
                acks=-1,
                timeout_ms=1000,
                topic_data=[TopicProduceData("secret", b"", [PartitionProduceData(0, memoryview(sent))])],
            )

            async def work(cluster: Cluster, request: ProduceRequest = request) -> ProduceResponse:
                link = await cluster.any_link(cluster.deadline())
                found: ProduceResponse = await link.call(ApiKey.PRODUCE, request, cluster.deadline(), at_most=11)
                return found

            answer = run(broker, work)
            assert isinstance(answer, ProduceResponse)
            (part,) = answer.responses[0].partition_responses
            assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not list(tmp_path.rglob("staging"))
