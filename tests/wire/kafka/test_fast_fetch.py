"""The fast path of Fetch reads and writes what the generated codec reads and writes, or gives None."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qanat.wire.kafka.fast_fetch import VERSION, read_fast_fetch, write_fast_fetch_head
from qanat.wire.kafka.headers import frame_request, frame_response, read_request_header
from qanat.wire.kafka.messages import fetch as codec
from qanat.wire.kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

RECORDS = b"whole batches"


def usual(topic: str = "orders", **more: Any) -> FetchRequest:
    partition = FetchPartition(3, 7, fetch_offset=2**40, partition_max_bytes=1000)
    fields = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 5000, "isolation_level": 1, "session_epoch": -1}
    return FetchRequest(**{**fields, "topics": [FetchTopic(topic, partitions=[partition])], **more})


def framed(request: FetchRequest, version: int = VERSION, client_id: str | None = "client") -> bytes:
    body = codec.write_request(request, version)
    return b"".join(bytes(chunk) for chunk in frame_request(1, version, 77, client_id, body))[4:]


@pytest.mark.parametrize("client_id", [None, "", "client", "größe"])
@pytest.mark.parametrize("topic", ["orders", "größe"])
def test_a_fast_fetch_is_read_as_the_codec_reads_it(client_id: str | None, topic: str) -> None:
    found = read_fast_fetch(memoryview(framed(usual(topic), client_id=client_id)))

    assert found is not None
    assert (found.correlation_id, found.max_wait_ms, found.min_bytes, found.is_committed) == (77, 500, 1, True)
    assert (found.topic, found.partition, found.leader_epoch, found.offset) == (topic, 3, 7, 2**40)
    assert found.max_bytes == 1000


def test_the_smaller_of_both_limits_holds() -> None:
    found = read_fast_fetch(memoryview(framed(usual(max_bytes=10))))

    assert found is not None
    assert found.max_bytes == 10


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("records", [b"", RECORDS])
def test_the_answer_is_the_codecs(isolation_level: int, records: bytes) -> None:
    found = read_fast_fetch(memoryview(framed(usual("größe", isolation_level=isolation_level))))
    aborted: list[AbortedTransaction] | None = [] if isolation_level else None
    part = PartitionData(3, 0, 2**41, 2**40, 17, aborted_transactions=aborted, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse("größe", partitions=[part])])
    whole = frame_response(1, VERSION, 77, codec.write_response(response, VERSION))

    assert found is not None
    head = write_fast_fetch_head(found, 2**41, 2**40, 17, len(records))
    assert head + records == b"".join(bytes(chunk) for chunk in whole)


@pytest.mark.parametrize(
    "request_",
    [
        usual(replica_id=2),
        usual(session_id=5, session_epoch=3),
        usual(session_epoch=0),
        usual(topics=[]),
        usual(topics=usual().topics * 2),
        usual(topics=[FetchTopic("orders", partitions=usual().topics[0].partitions * 2)]),
        usual(topics=[FetchTopic("orders", partitions=[])]),
        usual(""),
        usual(forgotten_topics_data=[ForgottenTopic("orders", partitions=[1])]),
        usual(rack_id="here"),
    ],
)
def test_other_requests_take_the_ordinary_path(request_: FetchRequest) -> None:
    assert read_fast_fetch(memoryview(framed(request_))) is None


def test_other_apis_and_versions_are_not_looked_at() -> None:
    for version in (4, 10, 12):
        assert read_fast_fetch(memoryview(framed(usual(), version))) is None
    frame = bytearray(framed(usual()))
    frame[1] = 0
    assert read_fast_fetch(memoryview(frame)) is None


def test_a_frame_that_is_cut_off_or_too_long_is_left_to_others() -> None:
    frame = framed(usual())
    for length in range(len(frame)):
        assert read_fast_fetch(memoryview(frame[:length])) is None
    assert read_fast_fetch(memoryview(frame + b"\0")) is None


@given(st.integers(0, 10_000), st.integers(0, 255), st.binary(max_size=80))
@example(8, 0xFF, b"")
def test_what_is_taken_of_damaged_frames_is_what_the_codec_takes(place: int, value: int, tail: bytes) -> None:
    frame = bytearray(framed(usual()))
    frame[place % len(frame)] = value
    frame += tail
    found = read_fast_fetch(memoryview(frame))
    if found is None:
        return
    header = read_request_header(memoryview(frame))
    request = codec.read_request(memoryview(frame), header.api_version, header.body_position)
    (topic,) = request.topics
    (part,) = topic.partitions
    assert (header.correlation_id, request.max_wait_ms) == (found.correlation_id, found.max_wait_ms)
    assert (request.min_bytes, request.isolation_level == 1) == (found.min_bytes, found.is_committed)
    assert (topic.topic, part.partition, part.fetch_offset) == (found.topic, found.partition, found.offset)
    assert part.current_leader_epoch == found.leader_epoch
    assert min(request.max_bytes, part.partition_max_bytes) == found.max_bytes
