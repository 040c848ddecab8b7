"""Headers and frames: what stands in front of every message."""

from __future__ import annotations

import pytest

from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.headers import frame_request, frame_response, read_request_header, read_response_header
from qanat.wire.kafka.registry import APIS, ApiKey


def body_of(chunks: list[bytes | memoryview]) -> memoryview:
    """A frame without its size, which must be right."""
    whole = b"".join(chunks)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return memoryview(whole)[4:]


@pytest.mark.parametrize("client_id", ["librdkafka", "", None])
@pytest.mark.parametrize("version", [3, 9])
def test_a_request_header_comes_back_with_the_place_of_the_body(client_id: str | None, version: int) -> None:
    frame = body_of(frame_request(ApiKey.PRODUCE, version, 77, client_id, [b"body"]))

    header = read_request_header(frame)

    assert (header.api_key, header.api_version, header.correlation_id) == (0, version, 77)
    assert header.client_id == client_id
    assert bytes(frame[header.body_position :]) == b"body"


def test_the_client_id_is_spelled_the_old_way_even_in_flexible_versions() -> None:
    assert bytes(body_of(frame_request(ApiKey.API_VERSIONS, 3, 1, "a", []))) == b"\0\x12\0\x03\0\0\0\x01\0\x01a\0"


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    frame = memoryview(b"\0\x12\0\x03\0\0\0\x01\xff\xff" + b"\x02\x00\x01x\x63\x00" + b"rest")

    assert bytes(frame[read_request_header(frame).body_position :]) == b"rest"


def test_an_unknown_key_or_version_is_not_the_headers_business() -> None:
    assert read_request_header(memoryview(b"\x7f\0\0\x63\0\0\0\x01\0\x01a")).client_id == "a"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0\x09\0\0\0",
        b"\0\0\0\x09\0\0\0\x01\0\x05abc",
        b"\0\0\0\x09\0\0\0\x01\xff\xfe",
        b"\0\0\0\x09\0\0\0\x01\0\x01\xff\0",
        b"\0\0\0\x09\0\0\0\x01\0\x01a",
        b"\0\0\0\x09\0\0\0\x01\0\x01a\xff\xff\xff\xff\x0f",
    ],
)
def test_a_header_that_lies_is_refused(frame: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_request_header(memoryview(frame))


@pytest.mark.parametrize(("version", "position"), [(8, 4), (9, 5)])
def test_a_response_header_has_tags_from_the_flexible_version_on(version: int, position: int) -> None:
    frame = body_of(frame_response(ApiKey.PRODUCE, version, 9, [b"body"]))

    assert read_response_header(frame, ApiKey.PRODUCE, version) == (9, position)
    assert bytes(frame[position:]) == b"body"


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_answered_with_the_oldest_header_in_every_version(version: int) -> None:
    assert bytes(body_of(frame_response(ApiKey.API_VERSIONS, version, 9, [b"body"]))) == b"\0\0\0\x09body"


def test_a_large_first_chunk_is_not_copied() -> None:
    records = memoryview(bytes(100_000))

    assert frame_response(ApiKey.FETCH, 12, 9, [records, b"tail"])[1] is records


def test_a_response_header_that_is_cut_off_is_refused() -> None:
    for frame in (b"", b"\0\0\0", b"\0\0\0\x09"):
        with pytest.raises(MalformedMessageError):
            read_response_header(memoryview(frame), ApiKey.PRODUCE, 9)


def test_versions_and_flexible_versions_are_those_of_the_protocol() -> None:
    produce, handshake = APIS[ApiKey.PRODUCE], APIS[ApiKey.SASL_HANDSHAKE]

    assert (produce.first_version, produce.last_version, produce.request_flexible_from) == (3, 13, 9)
    assert handshake.request_flexible_from > 32_000
    assert produce.knows(13)
    assert not produce.knows(14)
