"""The fast path of Produce reads and writes what the generated codec reads and writes, or gives None."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qanat.wire.batch_header import batch_crc, check_batch
from qanat.wire.compression import Codec
from qanat.wire.kafka import fast_produce
from qanat.wire.kafka.headers import frame_request, frame_response, read_request_header
from qanat.wire.kafka.messages import produce as codec
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from qanat.wire.records import Record, encode_batch

VERSIONS = range(3, 13)
BATCH = bytes(encode_batch([Record(0, 0, b"key", b"value")]))


def interpreted() -> ModuleType:
    file = Path(fast_produce.__file__).parent / "fast_produce.py"
    spec = importlib.util.spec_from_file_location("interpreted_fast_produce", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMS = [fast_produce, interpreted()]
EACH_FORM = pytest.mark.parametrize("form", FORMS, ids=["as installed", "interpreted"])


def usual(name: str = "orders", index: int = 3, batch: bytes = BATCH, **more: Any) -> ProduceRequest:
    topic = TopicProduceData(name, partition_data=[PartitionProduceData(index, memoryview(batch))])
    return ProduceRequest(**{"acks": -1, "timeout_ms": 30_000, "topic_data": [topic], **more})


def framed(request: ProduceRequest, version: int, client_id: str | None = "client") -> bytes:
    body = codec.write_request(request, version)
    return b"".join(bytes(chunk) for chunk in frame_request(0, version, 77, client_id, body))[4:]


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_id", [None, "", "client"])
def test_a_fast_produce_is_read_as_the_codec_reads_it(form: ModuleType, version: int, client_id: str | None) -> None:
    for size in (0, 1, 100, 20_000):
        batch = bytes(encode_batch([Record(0, 0, None, b"x" * size)]))
        frame = framed(usual(batch=batch, acks=1), version, client_id)
        found = form.read_fast_produce(memoryview(frame))

        assert found is not None
        assert (found.version, found.correlation_id, found.acks, found.timeout_ms) == (version, 77, 1, 30_000)
        assert (found.name, found.index, frame[found.start : found.end]) == (b"orders", 3, batch)


def facts(found: Any) -> tuple[int, int, int]:
    return found.record_count, found.crc, found.max_timestamp


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("timestamp", [-1, 0, 1_700_000_000_000, 2**62])
def test_what_is_said_of_a_plain_batch_is_what_its_header_says(form: ModuleType, version: int, timestamp: int) -> None:
    for count in (1, 2, 300):
        batch = bytes(encode_batch([Record(offset, timestamp, b"k", b"v") for offset in range(count)], codec=Codec.LZ4))
        header = check_batch(batch)
        found = form.read_fast_produce(framed(usual(batch=batch), version))

        assert facts(found) == (header.record_count, header.crc, header.max_timestamp) == (count, header.crc, timestamp)


@EACH_FORM
def test_a_batch_of_a_known_producer_is_not_plain(form: ModuleType) -> None:
    for producer_id in (0, 7, 2**62):
        batch = encode_batch([Record(0, 0, None, b"")], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        assert facts(form.read_fast_produce(framed(usual(batch=bytes(batch)), 7))) == (0, 0, 0)


@given(st.integers(0, 60), st.integers(0, 255), st.booleans())
@example(16, 1, True)
@example(22, 5, True)
@example(60, 0, True)
def test_no_header_is_called_plain_that_would_not_be_let_in(place: int, value: int, is_crc_right: bool) -> None:
    batch = bytearray(BATCH)
    batch[place] = value
    if is_crc_right:
        batch[17:21] = batch_crc(batch).to_bytes(4, "big")
    found, again = (form.read_fast_produce(framed(usual(batch=bytes(batch)), 7)) for form in FORMS)

    assert (found is None) == (again is None)
    if found is None or not found.record_count:
        return
    assert facts(found) == facts(again)
    if found.crc == batch_crc(batch):
        header = check_batch(batch)
        assert facts(found) == (header.record_count, header.crc, header.max_timestamp)
        assert header.producer_id < 0
        assert not header.is_control
        assert not header.is_transactional
        assert not header.is_log_append_time


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_codecs(form: ModuleType, version: int) -> None:
    found = form.read_fast_produce(framed(usual("a" * 126), version))
    part = PartitionProduceResponse(3, base_offset=2**40, log_append_time_ms=-1, log_start_offset=17)
    response = ProduceResponse([TopicProduceResponse("a" * 126, partition_responses=[part])])
    whole = frame_response(0, version, 77, codec.write_response(response, version))

    assert form.write_fast_produce(found, 2**40, -1, 17) == b"".join(bytes(chunk) for chunk in whole)


@EACH_FORM
@pytest.mark.parametrize(
    "request_",
    [
        usual(transactional_id="t"),
        usual(topic_data=[]),
        usual(topic_data=usual().topic_data * 2),
        usual(topic_data=[TopicProduceData("orders", partition_data=[])]),
        usual(topic_data=[TopicProduceData("orders", partition_data=usual().topic_data[0].partition_data * 2)]),
        usual(topic_data=[TopicProduceData("orders", partition_data=[PartitionProduceData(0, None)])]),
        usual("größe"),
        usual(""),
        usual(batch=b"short"),
        usual(index=-1),
        usual(acks=2),
        usual(batch=bytes(encode_batch([Record(0, 0, None, b"")], producer_id=1, is_transactional=True))),
    ],
)
def test_other_requests_take_the_ordinary_path(form: ModuleType, request_: ProduceRequest) -> None:
    for version in VERSIONS:
        assert form.read_fast_produce(framed(request_, version)) is None


@EACH_FORM
def test_other_apis_and_versions_are_not_looked_at(form: ModuleType) -> None:
    frame = bytearray(framed(usual(), 12))
    for first_bytes in (b"\0\1\0\14", b"\0\0\0\15", b"\0\0\0\2", b"\0\0\xff\xff"):
        frame[:4] = first_bytes
        assert form.read_fast_produce(bytes(frame)) is None


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_off_or_too_long_is_left_to_others(form: ModuleType, version: int) -> None:
    frame = framed(usual(), version)
    for length in range(len(frame)):
        assert form.read_fast_produce(frame[:length]) is None
    assert form.read_fast_produce(frame + b"\0") is None


@given(st.sampled_from(VERSIONS), st.integers(0, 10_000), st.integers(0, 255), st.binary(max_size=80))
@example(12, 8, 0xFF, b"")
def test_both_forms_agree_on_damaged_frames(version: int, place: int, value: int, tail: bytes) -> None:
    """And what they take for a fast request, the codec takes for the same one."""
    frame = bytearray(framed(usual(), version))
    frame[place % len(frame)] = value
    frame += tail
    found, again = (form.read_fast_produce(bytes(frame)) for form in FORMS)

    assert (found is None) == (again is None)
    if found is None:
        return
    header = read_request_header(memoryview(frame))
    request = codec.read_request(memoryview(frame), header.api_version, header.body_position)
    (topic,) = request.topic_data
    (part,) = topic.partition_data
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, found.acks, found.timeout_ms)
    assert (topic.name.encode(), part.index) == (found.name, found.index)
    assert bytes(part.records or b"") == frame[found.start : found.end]
    assert (found.start, found.end, facts(found)) == (again.start, again.end, facts(again))
