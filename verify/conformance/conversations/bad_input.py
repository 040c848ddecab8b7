"""Input that no client would send: truncated, with wrong lengths, random, and four megabytes of empty fields."""

from __future__ import annotations

import contextlib
import random
import struct
import time

from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from qanat.wire.kafka.registry import APIS, ApiKey
from verify.conformance.play import Play
from verify.conformance.script import batch, conversation, fetch_request, make_topic, produce_request

SILENCE_S = 0.3
TIMEOUT_S = 2.0
"""For input that a broker answers at once, closes the connection for, or ignores."""
EMPTY_TAG = b"\x64\x00"
"""An empty tagged field of the unknown tag 100."""
MANY_TAGS = 2 * 1024 * 1024


def uvarint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def say(play: Play, title: str, data: bytes, timeout_s: float = 6.0) -> None:
    """Send bytes on a connection of their own, and record whether the broker answers or closes it."""
    connection = play.connection(title)
    with contextlib.suppress(ConnectionError):  # Closed before everything was sent: `frame` finds out as well.
        connection.send_raw(data)
    answer = connection.frame(timeout_s)
    play.note(title, answer if isinstance(answer, str) else "an answer")
    play.disconnect(title)


def framed(key: ApiKey, version: int, body: bytes) -> bytes:
    return b"".join(frame_request(key, version, 7, "tester", [body]))


def bodies(play: Play) -> dict[tuple[ApiKey, int], bytes]:
    """A valid request of each kind, old and flexible."""
    topic = make_topic(play)
    requests = {
        (ApiKey.METADATA, 4): MetadataRequest([MetadataRequestTopic(name=topic)], False),
        (ApiKey.METADATA, 12): MetadataRequest([MetadataRequestTopic(name=topic)], False),
        (ApiKey.PRODUCE, 8): produce_request(topic, batch()),
        (ApiKey.PRODUCE, 9): produce_request(topic, batch()),
        (ApiKey.FETCH, 11): fetch_request(topic),
        (ApiKey.FETCH, 12): fetch_request(topic),
        (ApiKey.OFFSET_COMMIT, 7): OffsetCommitRequest(
            play.name, topics=[OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 1)])]
        ),
        (ApiKey.JOIN_GROUP, 9): JoinGroupRequest(
            play.name, 10_000, 10_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"x")]
        ),
    }
    return {
        (key, version): b"".join(APIS[key].codec.write_request(request, version))
        for (key, version), request in requests.items()
    }


@conversation
def four_megabytes_of_empty_tagged_fields(play: Play) -> None:
    tags = uvarint(MANY_TAGS) + EMPTY_TAG * MANY_TAGS
    asked = APIS[ApiKey.API_VERSIONS].codec.write_request(ApiVersionsRequest("qanat-tests", "1.0"), 3)
    body = b"".join(asked)
    assert body.endswith(b"\0"), "without tagged fields"
    connection = play.connection("in the body")
    connection.send_raw(framed(ApiKey.API_VERSIONS, 3, body[:-1] + tags))
    frame = connection.frame()
    if not isinstance(frame, str):
        _, position = read_response_header(frame, ApiKey.API_VERSIONS, 3)
        answer = APIS[ApiKey.API_VERSIONS].codec.read_response(frame, 3, position)
        frame = f"an answer with error {answer.error_code}"
    play.note("in the body", frame)

    header = struct.pack(">hhih6s", ApiKey.API_VERSIONS, 3, 7, 6, b"tester") + tags
    say(play, "in the header", struct.pack(">i", len(header) + len(body)) + header + body)
    connection = play.connection("afterwards")
    connection.send_raw(framed(ApiKey.API_VERSIONS, 3, body))
    play.note("afterwards", "no answer" if isinstance(connection.frame(), str) else "an answer")


@conversation
def requests_that_are_cut_off(play: Play) -> None:
    """The frame has its declared length; the request in it is truncated."""
    for (key, version), body in bodies(play).items():
        for left in sorted({0, 1, 2, 5, len(body) // 3, len(body) // 2, len(body) - 4, len(body) - 1}):
            title = f"{APIS[key].name} v{version}: {left} bytes of a body of {len(body)}"
            say(play, title, framed(key, version, body[:left]), TIMEOUT_S)


@conversation
def frames_that_are_cut_off(play: Play) -> None:
    """The frame declares more bytes than are sent: the broker waits for the rest, or for the end of the connection."""
    whole = framed(ApiKey.METADATA, 12, b"\x01\x00\x00\x00")
    for left in (1, 3, 4, 5, len(whole) - 1):
        connection = play.connection(str(left))
        connection.send_raw(whole[:left])
        answer = connection.frame(SILENCE_S)
        play.note(f"{left} bytes", answer if isinstance(answer, str) else "an answer")
        connection.send_raw(whole[left:])
        answer = connection.frame()
        play.note(f"{left} bytes, then the others", answer if isinstance(answer, str) else "an answer")


@conversation
def a_request_that_comes_byte_by_byte(play: Play) -> None:
    connection = play.connection("slow")
    for byte in framed(ApiKey.METADATA, 12, b"\x01\x00\x00\x00"):
        connection.send_raw(bytes([byte]))
        time.sleep(0.005)
    answer = connection.frame()
    play.note("Metadata v12, a byte at a time", answer if isinstance(answer, str) else "an answer")


@conversation
def lengths_that_lie(play: Play) -> None:
    name = f"{play.name}-t".encode()
    sound = batch()
    string, compact = struct.pack(">h", len(name)) + name, uvarint(len(name) + 1) + name
    one_topic = struct.pack(">hhii", -1, 1, 5000, 1)
    lies = {
        "Metadata v4: more topics than bytes": (ApiKey.METADATA, 4, struct.pack(">i", 2**31 - 1) + string),
        "Metadata v4: topics by the hundred thousand": (ApiKey.METADATA, 4, struct.pack(">i", 100_000) + string),
        "Metadata v4: -2 topics": (ApiKey.METADATA, 4, struct.pack(">i", -2) + string),
        "Metadata v4: a name longer than the request": (
            ApiKey.METADATA,
            4,
            struct.pack(">ih", 1, 32_767) + name + b"\0",
        ),
        "Metadata v4: a name of -1": (ApiKey.METADATA, 4, struct.pack(">ih", 1, -1) + b"\0"),
        "Metadata v4: a name of -2": (ApiKey.METADATA, 4, struct.pack(">ih", 1, -2) + b"\0"),
        "Metadata v12: more topics than bytes": (ApiKey.METADATA, 12, uvarint(2**31) + bytes(16) + compact),
        "Metadata v12: a count of six bytes": (ApiKey.METADATA, 12, b"\x80\x80\x80\x80\x80\x01" + bytes(16) + compact),
        "Metadata v12: a count of five bytes for one": (
            ApiKey.METADATA,
            12,
            b"\x81\x80\x80\x80\x00" + b"\0\0\0",
        ),
        "Metadata v12: a name longer than the request": (
            ApiKey.METADATA,
            12,
            uvarint(2) + bytes(16) + uvarint(30_000) + name,
        ),
        "Metadata v12: a tagged field longer than the request": (
            ApiKey.METADATA,
            12,
            b"\x01\x00\x00\x01\x64" + uvarint(1000),
        ),
        "Metadata v12: more tagged fields than bytes": (ApiKey.METADATA, 12, b"\x01\x00\x00" + uvarint(2**31 - 1)),
        "Produce v8: records longer than the request": (
            ApiKey.PRODUCE,
            8,
            one_topic + string + struct.pack(">iii", 1, 0, len(sound) + 1) + sound,
        ),
        "Produce v8: records of -2": (
            ApiKey.PRODUCE,
            8,
            one_topic + string + struct.pack(">iii", 1, 0, -2),
        ),
        "Produce v8: records of two gigabytes": (
            ApiKey.PRODUCE,
            8,
            one_topic + string + struct.pack(">iii", 1, 0, 2**31 - 1) + sound,
        ),
        "JoinGroup v5: metadata longer than the request": (
            ApiKey.JOIN_GROUP,
            5,
            string + struct.pack(">iihhh", 10_000, 10_000, 0, -1, 8) + b"consumer"
            + struct.pack(">ih", 1, 5) + b"range" + struct.pack(">i", 1000),
        ),
    }  # fmt: skip
    for title, (key, version, body) in lies.items():
        say(play, title, framed(key, version, body))


@conversation
def batches_whose_lengths_lie(play: Play) -> None:
    topic = make_topic(play)
    sound = batch()
    spoilt = {
        "a batch of no bytes": b"",
        "half a header": sound[:30],
        "a batch that ends early": sound[:-1],
        "a batch with a byte behind it": sound + b"\0",
        "a length of -1": sound[:8] + struct.pack(">i", -1) + sound[12:],
        "a length of two gigabytes": sound[:8] + struct.pack(">i", 2**31 - 1) + sound[12:],
        "a length of nothing": sound[:8] + struct.pack(">i", 0) + sound[12:],
        "a count of -1": sound[:57] + struct.pack(">i", -1) + sound[61:],
        "a count of two billions": sound[:57] + struct.pack(">i", 2**31 - 1) + sound[61:],
        "noise": random.Random(4).randbytes(len(sound)),
    }
    for note, content in spoilt.items():
        play.exchange(ApiKey.PRODUCE, 9, produce_request(topic, content), note, on=note)


@conversation
def frames_of_chance(play: Play) -> None:
    chance = random.Random(20_251_115)
    for size in (10, 14, 30, 100, 1000, 100_000):
        say(play, f"{size} bytes", struct.pack(">i", size) + chance.randbytes(size), TIMEOUT_S)


@conversation
def requests_of_chance(play: Play) -> None:
    """A valid header, and then random bytes."""
    chance = random.Random(42)
    kinds = [
        (ApiKey.METADATA, 4),
        (ApiKey.METADATA, 12),
        (ApiKey.PRODUCE, 9),
        (ApiKey.FETCH, 12),
        (ApiKey.LIST_OFFSETS, 7),
        (ApiKey.OFFSET_COMMIT, 9),
        (ApiKey.OFFSET_FETCH, 9),
        (ApiKey.FIND_COORDINATOR, 6),
        (ApiKey.JOIN_GROUP, 9),
        (ApiKey.SYNC_GROUP, 5),
        (ApiKey.CREATE_TOPICS, 7),
        (ApiKey.DELETE_TOPICS, 6),
        (ApiKey.DESCRIBE_CONFIGS, 4),
        (ApiKey.INIT_PRODUCER_ID, 5),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),
    ]
    for key, version in kinds:
        for size in (40, 4000):
            body = b"\xff" + chance.randbytes(size)
            say(play, f"{APIS[key].name} v{version}: {size} bytes of chance", framed(key, version, body), TIMEOUT_S)
