"""The fast path of Produce reads and writes what the generated codec reads and writes, or gives None."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from struct import pack_into
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.log.batches import log_settings

from qanat.log.admission import admit
from qanat.model.errors import QanatError
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

VERSIONS = range(3, 14)
TOPIC_ID = bytes(range(0x78, 0x88))
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
    topic = TopicProduceData(name, TOPIC_ID, [PartitionProduceData(index, memoryview(batch))])
    return ProduceRequest(**{"acks": -1, "timeout_ms": 30_000, "topic_data": [topic], **more})


def topic_of(version: int) -> bytes:
    return TOPIC_ID if version == 13 else b"orders"


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
        assert (found.topic, found.index, frame[found.start : found.end]) == (topic_of(version), 3, batch)


def facts(header: Any) -> tuple[Any, ...]:
    """What both headers say."""
    return (
        (header.record_count, header.last_offset_delta, header.crc, header.max_timestamp, header.is_transactional),
        (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence),
    )


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("timestamp", [-1, 0, 1_700_000_000_000, 2**62])
def test_what_is_said_of_a_batch_is_what_its_header_says(form: ModuleType, version: int, timestamp: int) -> None:
    for count in (1, 2, 300):
        batch = bytes(encode_batch([Record(offset, timestamp, b"k", b"v") for offset in range(count)], codec=Codec.LZ4))
        found = form.read_fast_produce(framed(usual(batch=batch), version))

        assert facts(found.header) == facts(check_batch(batch))
        assert facts(form.read_fast_header(batch)) == facts(found.header)


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "t", "t" * 126])
def test_a_batch_of_a_producer_is_read_with_its_sequence(
    form: ModuleType, version: int, transactional_id: str | None
) -> None:
    for producer_id, epoch, sequence in ((0, 0, 0), (7, 2**15 - 1, 2**31 - 1), (2**62, 3, 2**31 - 2)):
        batch = bytes(
            encode_batch(
                [Record(0, 0, None, b""), Record(1, 0, None, b"")],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=transactional_id is not None,
            )
        )
        found = form.read_fast_produce(framed(usual(batch=batch, transactional_id=transactional_id), version))

        assert found.transactional_id == (None if transactional_id is None else transactional_id.encode())
        assert facts(found.header) == facts(check_batch(batch))
        assert (found.topic, found.index, found.acks, found.timeout_ms) == (topic_of(version), 3, -1, 30_000)


PRODUCERS = st.tuples(
    st.sampled_from([-(2**63), -2, -1, 0, 7, 2**63 - 1]),
    st.sampled_from([-(2**15), -1, 0, 1, 2**15 - 1]),
    st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
)


@given(st.integers(0, 60), st.integers(0, 255), PRODUCERS, st.booleans(), st.booleans())
@example(16, 1, (-1, -1, -1), False, True)
@example(22, 5, (-1, -1, -1), False, True)
@example(60, 0, (-1, -1, -1), False, True)
@example(0, 0, (7, -1, 0), False, True)
@example(0, 0, (-1, -1, -1), True, True)
def test_no_header_is_called_sound_that_would_not_be_let_in(
    place: int, value: int, producer: tuple[int, int, int], is_transactional: bool, is_crc_right: bool
) -> None:
    """And what would be let in outside of topics that change it is called sound."""
    batch = bytearray(BATCH)
    pack_into(">qhi", batch, 43, *producer)
    if is_transactional:
        batch[22] |= 0x10
    batch[place] = value
    if is_crc_right:
        batch[17:21] = batch_crc(batch).to_bytes(4, "big")
    found, again = (form.read_fast_header(bytes(batch)) for form in FORMS)

    assert (found is None) == (again is None)
    try:
        header = admit(batch, log_settings(), 2**63, 1 << 20).header
    except QanatError:
        assert found is None or found.crc != batch_crc(batch)
        return
    assert found is not None
    assert facts(found) == facts(again) == facts(header)


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_codecs(form: ModuleType, version: int) -> None:
    found = form.read_fast_produce(framed(usual("a" * 126), version))
    part = PartitionProduceResponse(3, base_offset=2**40, log_append_time_ms=-1, log_start_offset=17)
    response = ProduceResponse([TopicProduceResponse("a" * 126, TOPIC_ID, [part])])
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
@pytest.mark.parametrize("name", ["größe", "", "n" * 127])
def test_names_that_are_unusual_take_the_ordinary_path(form: ModuleType, name: str) -> None:
    for version in (9, 12):
        assert form.read_fast_produce(framed(usual(name), version)) is None


@EACH_FORM
def test_other_apis_and_versions_are_not_looked_at(form: ModuleType) -> None:
    frame = bytearray(framed(usual(), 13))
    for first_bytes in (b"\0\1\0\15", b"\0\0\0\16", b"\0\0\0\2", b"\0\0\xff\xff"):
        frame[:4] = first_bytes
        assert form.read_fast_produce(bytes(frame)) is None


@EACH_FORM
@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_off_or_too_long_is_left_to_others(form: ModuleType, version: int) -> None:
    frame = framed(usual(), version)
    for length in range(len(frame)):
        assert form.read_fast_produce(frame[:length]) is None
    assert form.read_fast_produce(frame + b"\0") is None


IN_TRANSACTION = bytes(
    encode_batch([Record(0, 0, None, b"")], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
)


@given(st.sampled_from(VERSIONS), st.booleans(), st.integers(0, 10_000), st.integers(0, 255), st.binary(max_size=80))
@example(12, False, 8, 0xFF, b"")
@example(12, True, 17, 0x80, b"")
@example(13, False, 28, 0x80, b"")
@example(7, True, 16, 0x7F, b"")
def test_both_forms_agree_on_damaged_frames(
    version: int, is_transactional: bool, place: int, value: int, tail: bytes
) -> None:
    """And what they take for a fast request, the codec takes for the same one."""
    request_ = usual(transactional_id="id", batch=IN_TRANSACTION) if is_transactional else usual()
    frame = bytearray(framed(request_, version))
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
    transactional_id = None if request.transactional_id is None else request.transactional_id.encode()
    assert (transactional_id, request.acks, request.timeout_ms) == (
        found.transactional_id,
        found.acks,
        found.timeout_ms,
    )
    assert header.correlation_id == found.correlation_id
    assert frame[fast_produce.CLIENT_ID_AT : found.client_id_end] == (header.client_id or "").encode()
    assert (bytes(topic.topic_id) if version == 13 else topic.name.encode(), part.index) == (found.topic, found.index)
    assert bytes(part.records or b"") == frame[found.start : found.end]
    assert (found.start, found.end, found.header is None) == (again.start, again.end, again.header is None)
    if found.header is not None:
        assert facts(found.header) == facts(again.header)
