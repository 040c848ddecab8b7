"""Malformed messages: one kind of fault, at once, without memory, for every API in every version."""

from __future__ import annotations

from functools import cache, partial
from random import Random
from time import thread_time
from types import ModuleType
from typing import Any

import pytest
from tests.memory import peak_bytes
from tests.wire.kafka.forgeries import Forge, lies
from tools.codec import api_source
from tools.codec.schema import Api as Schema
from tools.codec.schema import Layout

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError, TooManyElementsError
from qanat.wire.kafka.messages import api_versions, fetch, metadata, produce
from qanat.wire.kafka.registry import APIS

DIRECTIONS = ["request", "response"]
LARGEST_ALLOCATION_BYTES = 64 * 1024


@cache
def schemas() -> dict[str, Schema]:
    return {api.name: api for api in api_source.all_apis()}


def reader(name: str, direction: str) -> Any:
    (api,) = [api for api in APIS.values() if api.name == name]
    codec = api.codec
    assert isinstance(codec, ModuleType)
    return getattr(codec, f"read_{direction}")


def layouts(name: str, direction: str) -> dict[int, Layout]:
    found: dict[int, Layout] = getattr(schemas()[name], direction).layouts
    return found


def is_refused(read: Any, data: bytes, version: int) -> bool:
    try:
        read(memoryview(data), version)
    except MalformedMessageError:
        return True
    return False


def forge(layout: Layout, fullness: int = 1) -> Forge:
    forged = Forge(fullness)
    forged.struct(layout)
    return forged


every_message = pytest.mark.parametrize(
    ("name", "direction"), [(api.name, direction) for api in APIS.values() for direction in DIRECTIONS]
)


@every_message
def test_every_length_that_lies_is_refused_without_memory(name: str, direction: str) -> None:
    read = reader(name, direction)
    shapes = layouts(name, direction)
    for version, layout in shapes.items():
        forged = forge(layout)
        read(memoryview(forged.data), version)
        for what, data in lies(forged):
            assert is_refused(read, data, version), f"v{version}, {what}, was read from {data.hex()}"
            peak = peak_bytes(partial(is_refused, read, data, version), LARGEST_ALLOCATION_BYTES)
            assert peak < LARGEST_ALLOCATION_BYTES, (version, what)


@every_message
def test_what_is_cut_off_is_refused_at_every_byte(name: str, direction: str) -> None:
    read = reader(name, direction)
    for version, layout in layouts(name, direction).items():
        data = bytes(forge(layout).data)
        for end in range(len(data)):
            assert is_refused(read, data[:end], version), (version, end)


@every_message
def test_what_is_left_over_is_refused_in_responses_and_ignored_in_requests(name: str, direction: str) -> None:
    """As Kafka ignores it: librdkafka sends three bytes too many when it asks for all topics."""
    read = reader(name, direction)
    for version, layout in layouts(name, direction).items():
        data = bytes(forge(layout).data) + bytes(3)
        assert is_refused(read, data, version) == (direction == "response")


@every_message
def test_a_string_that_is_not_utf8_is_refused(name: str, direction: str) -> None:
    read = reader(name, direction)
    for version, layout in layouts(name, direction).items():
        forged = forge(layout)
        for text in forged.texts:
            data = bytearray(forged.data)
            data[text] = 0xFF
            with pytest.raises(MalformedMessageError, match="UTF-8"):
                read(memoryview(data), version)


@every_message
def test_unknown_tagged_fields_are_skipped_everywhere(name: str, direction: str) -> None:
    read = reader(name, direction)
    codec = next(api for api in APIS.values() if api.name == name).codec
    write = getattr(codec, f"write_{direction}")
    for version, layout in layouts(name, direction).items():
        message = read(memoryview(forge(layout, fullness=2).data), version)

        assert read(memoryview(b"".join(write(message, version))), version) == message


def test_five_bytes_that_abort_the_process_of_another_parser_are_refused_at_once() -> None:
    started = thread_time()
    with pytest.raises(MalformedMessageError) as refused:
        metadata.read_request(memoryview(b"\xff\xff\xff\xff\x0f"), 12)

    assert thread_time() - started < 0.5
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def repeated(element: bytes, size: int, head: bytes = b"", extra: int = 1) -> bytes:
    count = size // len(element)
    return head + uvarint(count + extra) + element * count


FLOODS = {
    "tagged fields": (api_versions, 3, repeated(b"\x63\x00", 4_000_000, b"\x02a\x02b", 0)),
    "topics": (metadata, 12, repeated(bytes(16) + b"\x00\x00", 4_000_000) + b"\0\0\0\0"),
    "topic names": (metadata, 1, (2_000_000).to_bytes(4, "big") + bytes(4_000_000)),
    "empty topics": (produce, 9, repeated(b"\x01\x01\x00", 4_000_000, b"\0" + bytes(6)) + b"\0"),
    "tags in topics": (produce, 9, repeated(b"\x01\x01\x01\x63\x00", 4_000_000, b"\0" + bytes(6)) + b"\0"),
    "partitions": (produce, 9, b"\0" + bytes(6) + b"\x02\x02t" + repeated(bytes(6), 4_000_000) + b"\0\0"),
    "forgotten numbers": (
        fetch,
        12,
        bytes(25) + b"\x01\x02\x02t" + repeated(bytes(4), 4_000_000) + b"\0\x01\0",
    ),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_four_megabytes_of_next_to_nothing_are_refused_or_read_in_bounded_time(flood: str) -> None:
    codec, version, data = FLOODS[flood]
    started = thread_time()
    is_refused(codec.read_request, data, version)

    # 50 ms per MB is the goal and more than a quiet machine needs; the test leaves room for a slow one.
    assert thread_time() - started < 4 * 0.05 * 3


def test_a_count_that_cannot_fit_is_refused_before_the_first_element_is_read() -> None:
    with pytest.raises(MalformedMessageError, match="declares 30001"):
        metadata.read_request(memoryview((30_001).to_bytes(4, "big") + bytes(60_000)), 1)


def test_no_request_holds_more_than_a_million_elements() -> None:
    numbers = [*range(1_000_001)]
    topic = fetch.ForgottenTopic("t", partitions=numbers)
    data = b"".join(fetch.write_request(fetch.FetchRequest(forgotten_topics_data=[topic]), 12))

    assert is_refused(fetch.read_request, data, 12)


def test_what_a_request_may_hold_grows_with_its_size() -> None:
    names = [metadata.MetadataRequestTopic(name=f"topic-{number:08}") for number in range(60_000)]
    data = b"".join(metadata.write_request(metadata.MetadataRequest(names), 12))

    assert len(metadata.read_request(memoryview(data), 12).topics or []) == 60_000


def test_of_a_repeated_tag_the_last_one_counts_as_in_kafka() -> None:
    replica_state = b"\0\0\0\x07" + bytes(8) + b"\0"
    head = bytes(12) + bytes(1) + bytes(8) + b"\x01\x01\x01"
    tags = b"\x02" + b"\x01\x0d" + replica_state + b"\x01\x0d" + replica_state.replace(b"\x07", b"\x08")

    message = fetch.read_request(memoryview(head + tags), 15)

    assert message.replica_state is not None
    assert message.replica_state.replica_id == 8


def test_a_known_tagged_field_that_is_longer_than_its_content_is_refused() -> None:
    head = bytes(12) + bytes(1) + bytes(8) + b"\x01\x01\x01"
    with pytest.raises(MalformedMessageError, match="Tagged field 1"):
        fetch.read_request(memoryview(head + b"\x01\x01\x0e" + b"\0\0\0\x07" + bytes(8) + b"\0\0"), 15)


def test_damaged_messages_give_a_message_or_one_kind_of_fault() -> None:
    """A seeded fuzz: bytes of valid messages flipped, cut, doubled and exchanged."""
    random = Random(20_261_115)
    samples = [
        (reader(name, direction), version, bytes(forge(layout, fullness=2).data))
        for name in schemas()
        for direction in DIRECTIONS
        for version, layout in layouts(name, direction).items()
    ]
    deadline = thread_time() + 2
    outcomes = {"read": 0, "refused": 0}
    while thread_time() < deadline:
        read, version, data = random.choice(samples)
        started = thread_time()
        try:
            read(memoryview(damaged(random, data)), version)
            outcomes["read"] += 1
        except MalformedMessageError:
            outcomes["refused"] += 1
        assert thread_time() - started < 2
    assert min(outcomes.values()) > 100


def damaged(random: Random, data: bytes) -> bytes:
    out = bytearray(data or b"\0")
    for _ in range(random.choice((1, 1, 2, 5))):
        place = random.randrange(len(out) or 1)
        match random.randrange(4):
            case 0:
                out[place : place + 1] = bytes([random.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256)))])
            case 1:
                del out[place : place + random.randrange(8)]
            case 2:
                out[place:place] = out[place : place + random.randrange(16)]
            case 3:
                out[place : place + 4] = random.randbytes(4)
    return bytes(out)


def test_a_request_above_its_work_limit_is_refused() -> None:
    names = [metadata.MetadataRequestTopic(name=f"topic-{number}") for number in range(1000)]
    body = memoryview(b"".join(metadata.write_request(metadata.MetadataRequest(names), 12)))

    with pytest.raises(TooManyElementsError):
        metadata.read_request(body, 12, most_units=1000)
    assert metadata.read_request(body, 12).topics == names
