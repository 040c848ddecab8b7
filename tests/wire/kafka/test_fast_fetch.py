"""The fast path of Fetch reads and writes what the generated codec reads and writes, or gives None."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qanat.wire.kafka.fast_fetch import (
    FIRST_VERSION,
    LAST_VERSION,
    TOPIC_IDS_FROM,
    read_fast_fetch,
    write_fast_fetch,
)
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
    ReplicaState,
)

VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)
EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)
RECORDS = (b"whole batches", b"x" * 5000)
TOPIC_ID = bytes(range(1, 17))


def usual(topic: str = "orders", **more: Any) -> FetchRequest:
    partition = FetchPartition(3, 7, fetch_offset=2**40, partition_max_bytes=1000)
    fields = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 5000, "isolation_level": 1, "session_epoch": -1}
    return FetchRequest(**{**fields, "topics": [FetchTopic(topic, TOPIC_ID, [partition])], **more})


def framed(request: FetchRequest, version: int = FIRST_VERSION, client_id: str | None = "client") -> bytes:
    body = codec.write_request(request, version)
    return b"".join(bytes(chunk) for chunk in frame_request(1, version, 77, client_id, body))[4:]


@EACH_VERSION
@pytest.mark.parametrize("client_id", [None, "", "client", "größe"])
@pytest.mark.parametrize("topic", ["orders", "größe", "n" * 126])
def test_a_fast_fetch_is_read_as_the_codec_reads_it(version: int, client_id: str | None, topic: str) -> None:
    found = read_fast_fetch(memoryview(framed(usual(topic), version, client_id)))

    assert found is not None
    assert (found.version, found.correlation_id, found.max_wait_ms, found.min_bytes) == (version, 77, 500, 1)
    assert (found.partition, found.leader_epoch, found.offset, found.is_committed) == (3, 7, 2**40, True)
    assert found.topic == (TOPIC_ID if version >= TOPIC_IDS_FROM else topic)
    assert found.max_bytes == 1000


@EACH_VERSION
def test_the_smaller_of_both_limits_holds(version: int) -> None:
    found = read_fast_fetch(memoryview(framed(usual(max_bytes=10), version)))

    assert found is not None
    assert found.max_bytes == 10


@EACH_VERSION
@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("records", [(), RECORDS[:1], RECORDS])
def test_the_answer_is_the_codecs(version: int, isolation_level: int, records: tuple[bytes, ...]) -> None:
    found = read_fast_fetch(memoryview(framed(usual("größe", isolation_level=isolation_level), version)))
    aborted: list[AbortedTransaction] | None = [] if isolation_level else None
    part = PartitionData(3, 0, 2**41, 2**40, 17, aborted_transactions=aborted, records=b"".join(records))
    response = FetchResponse(responses=[FetchableTopicResponse("größe", TOPIC_ID, [part])])
    whole = frame_response(1, version, 77, codec.write_response(response, version))

    assert found is not None
    views = [memoryview(one) for one in records]
    answer = write_fast_fetch(found, 2**41, 2**40, 17, views, sum(map(len, records)))
    assert b"".join(map(bytes, answer)) == b"".join(map(bytes, whole))
    assert [one for one in answer if isinstance(one, memoryview)] == views, "records are sent without a copy"


@EACH_VERSION
@pytest.mark.parametrize(
    "request_",
    [
        usual(replica_id=2, replica_state=ReplicaState(2)),
        usual(session_id=5, session_epoch=3),
        usual(session_epoch=0),
        usual(topics=[]),
        usual(topics=usual().topics * 2),
        usual(topics=[FetchTopic("orders", partitions=usual().topics[0].partitions * 2)]),
        usual(topics=[FetchTopic("orders", partitions=[])]),
        usual(forgotten_topics_data=[ForgottenTopic("orders", partitions=[1])]),
        usual(rack_id="here"),
    ],
)
def test_other_requests_take_the_ordinary_path(version: int, request_: FetchRequest) -> None:
    assert read_fast_fetch(memoryview(framed(request_, version))) is None


@pytest.mark.parametrize(
    ("first_version", "request_"),
    [
        (12, usual(cluster_id="cluster")),
        (15, usual(replica_state=ReplicaState(2, 1))),
        (12, usual(topics=[FetchTopic("orders", TOPIC_ID, [FetchPartition(3, 7, 0, 5, -1, 1000)])])),
        (17, usual(topics=[FetchTopic("orders", TOPIC_ID, [FetchPartition(3, replica_directory_id=TOPIC_ID)])])),
    ],
)
def test_what_only_later_versions_say_takes_the_ordinary_path(first_version: int, request_: FetchRequest) -> None:
    for version in range(first_version, LAST_VERSION + 1):
        assert read_fast_fetch(memoryview(framed(request_, version))) is None


def test_a_name_of_two_bytes_of_length_takes_the_ordinary_path() -> None:
    assert read_fast_fetch(memoryview(framed(usual("n" * 127), 12))) is None


def test_other_apis_and_versions_are_not_looked_at() -> None:
    for version in (4, 10):
        assert read_fast_fetch(memoryview(framed(usual(), version))) is None
    frame = bytearray(framed(usual(), LAST_VERSION))
    frame[3] += 1
    assert read_fast_fetch(memoryview(frame)) is None
    frame = bytearray(framed(usual()))
    frame[1] = 0
    assert read_fast_fetch(memoryview(frame)) is None


def test_no_name_takes_the_ordinary_path() -> None:
    for version in range(FIRST_VERSION, TOPIC_IDS_FROM):
        assert read_fast_fetch(memoryview(framed(usual(""), version))) is None


@EACH_VERSION
def test_a_frame_that_is_cut_off_or_too_long_is_left_to_others(version: int) -> None:
    frame = framed(usual(), version)
    for length in range(len(frame)):
        assert read_fast_fetch(memoryview(frame[:length])) is None
    assert read_fast_fetch(memoryview(frame + b"\0")) is None


@given(st.sampled_from(VERSIONS), st.integers(0, 10_000), st.integers(0, 255), st.binary(max_size=80))
@example(11, 8, 0xFF, b"")
def test_what_is_taken_of_damaged_frames_is_what_the_codec_takes(
    version: int, place: int, value: int, tail: bytes
) -> None:
    frame = bytearray(framed(usual(), version))
    frame[place % len(frame)] = value
    frame += tail
    found = read_fast_fetch(memoryview(frame))
    if found is None:
        return
    header = read_request_header(memoryview(frame))
    request = codec.read_request(memoryview(frame), header.api_version, header.body_position)
    (topic,) = request.topics
    (part,) = topic.partitions
    assert (header.api_version, header.correlation_id) == (found.version, found.correlation_id)
    assert (request.max_wait_ms, request.replica_state, request.replica_id) == (found.max_wait_ms, None, -1)
    assert (request.min_bytes, request.isolation_level == 1) == (found.min_bytes, found.is_committed)
    assert (part.partition, part.fetch_offset, part.last_fetched_epoch) == (found.partition, found.offset, -1)
    assert (bytes(topic.topic_id) if found.version >= TOPIC_IDS_FROM else topic.topic) == found.topic
    assert part.current_leader_epoch == found.leader_epoch
    assert min(request.max_bytes, part.partition_max_bytes) == found.max_bytes
