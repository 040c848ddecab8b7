"""The fast path of Produce: which batches take it, and refusals as on the ordinary path."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from tests.servers.kafka.producer_here import TOPIC, ProducerHere, one_batch, produce_frame

from qanat.log.admission import admit
from qanat.log.flush_state import FlushJob
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import StorageError
from qanat.model.ids import TopicId
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.servers.kafka.produce_fast_path import FAST_BYTES, is_sound
from qanat.testing import BrokerHere
from qanat.wire.compression import Codec
from qanat.wire.kafka.fast_produce import read_fast_produce
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
    read_response,
    write_request,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch


def is_sound_when(value_bytes: int = 10, *, is_rotten: bool = False, is_readonly: bool = False) -> bool:
    """What is said of one batch in a request of its own."""
    content = encode_batch([Record(0, 0, None, bytes(value_bytes))])
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(content))])
    body = write_request(ProduceRequest(None, -1, 1000, [topic]), 7)
    frame = bytearray(b"".join(frame_request(0, 7, 1, "client", body))[4:])
    if is_rotten:
        frame[-1] ^= 1
    request = read_fast_produce(frame)
    assert request is not None
    assert request.header is not None
    view = memoryview(bytes(frame) if is_readonly else frame)
    return is_sound(request.header, view[request.start : request.end])


def test_a_small_batch_with_a_right_checksum_is_sound() -> None:
    assert is_sound_when()
    assert is_sound_when(FAST_BYTES - 100)


@pytest.mark.parametrize(
    "is_so",
    [
        lambda: is_sound_when(FAST_BYTES),
        lambda: is_sound_when(is_rotten=True),
        lambda: is_sound_when(is_readonly=True),
    ],
    ids=["large", "rotten", "not ours to write to"],
)
def test_any_other_batch_is_looked_at_by_those_who_admit_it(is_so: Callable[[], bool]) -> None:
    assert not is_so()


@pytest.mark.parametrize("version", [3, 7, 9, 12, 13])
async def test_batches_of_all_producers_take_the_fast_path(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain and compressed ones, of idempotent producers, repeated ones, and those in an open transaction."""
    ordinary: list[bytes] = []
    monkeypatch.setattr(Dispatcher, "_handle", lambda self, frame, *_: ordinary.append(bytes(frame)))
    async with BrokerHere() as broker:
        await broker.create_topic(TOPIC)
        producer = ProducerHere(broker)
        partition = broker.node.broker.local_replicas.writable[TOPIC, 0]
        log, topic_id = partition.log, partition.topic_id
        log.producers.requires_verification = False
        log.append(admit(opening(0), log.settings, 0, 1000), 0, 0)
        repeated = one_batch(producer_id=7, producer_epoch=0, base_sequence=0)
        for batch in (one_batch(), one_batch(codec=Codec.LZ4), repeated, repeated):
            producer.send(produce_frame(batch, version, topic_id=topic_id))
            assert await producer.answer()
        producer.send(produce_frame(opening(1), version, transactional_id="id", topic_id=topic_id))
        assert await producer.answer()

        assert (ordinary, log.end_offset) == ([], 5)


def opening(sequence: int) -> bytearray:
    """A batch in the transaction of a producer."""
    return one_batch(producer_id=9, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def fail(job: FlushJob) -> None:
    raise StorageError("the disk is gone")


def hang(job: FlushJob) -> None:
    time.sleep(0.5)


@pytest.mark.parametrize("version", [7, 8, 9, 12, 13])
@pytest.mark.parametrize(
    ("run", "timeout_ms", "code"),
    [(fail, 30_000, ErrorCode.KAFKA_STORAGE_ERROR), (hang, 0, ErrorCode.REQUEST_TIMED_OUT)],
    ids=["a disk that fails", "a disk that hangs"],
)
async def test_a_batch_that_does_not_become_durable_is_refused_as_on_the_ordinary_path(
    version: int, run: Callable[[FlushJob], None], timeout_ms: int, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bytes] = []
    topic_id = TopicId(uuid.UUID(int=1))
    for is_fast in (True, False):
        async with BrokerHere() as broker:
            broker.node.broker.metadata_changes.new_topic_id = lambda: topic_id  # type: ignore[method-assign]
            await broker.create_topic(TOPIC, configs={"flush.messages": 1})
            producer = ProducerHere(broker, is_fast=is_fast)
            with monkeypatch.context() as patch:
                patch.setattr(FlushJob, "run", run)
                producer.send(produce_frame(one_batch(), version, timeout_ms=timeout_ms, topic_id=topic_id.value.bytes))
                answers.append(await producer.answer())
            counters = producer.dispatcher.counters.by_api[ApiKey.PRODUCE]
            assert (counters.errors, counters.requests, counters.parked) == ({code: 1}, 1, 0)

    fast, ordinary = answers
    assert fast == ordinary
    part = read_response(memoryview(fast)[9 if version >= 9 else 8 :], version).responses[0].partition_responses[0]
    assert (part.error_code, part.base_offset) == (code, -1)
