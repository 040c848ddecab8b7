"""Message headers: a frame's size, the header of a request, the header of a response.

    frame    = size(int32) header body
    request  = api_key(int16) api_version(int16) correlation_id(int32) client_id(nullable string) [tags]
    response = correlation_id(int32) [tags]

Tags exist from the API's first flexible version on. The client id has the
old encoding even then, so that a broker can read it before it knows the version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.reading import FREE_UNITS, skip_tags
from qanat.wire.kafka.registry import APIS, NEVER
from qanat.wire.kafka.writing import LARGE_BYTES, Chunk, encode_nullable_string

_unpack_request = struct.Struct(">hhih").unpack_from
_unpack_correlation = struct.Struct(">i").unpack_from
_pack_request = struct.Struct(">ihhi").pack
_pack_response = struct.Struct(">ii").pack
_pack_flexible_response = struct.Struct(">iix").pack

REQUEST_FLEXIBLE_FROM = {key: api.request_flexible_from for key, api in APIS.items()}
RESPONSE_HEADER_FLEXIBLE_FROM = {key: api.response_header_flexible_from for key, api in APIS.items()}


class RequestHeader(Struct, gc=False, frozen=True):
    """A request's API, version, ids, and the start of its body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Read the header of a frame, without its size.

    An unknown key or version is no fault here: the four fields are
    the same for all, and only the body position may then be off by the tags.
    """
    try:
        api_key, api_version, correlation_id, length = _unpack_request(frame, 0)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise MalformedMessageError("A request's client id is longer than the request.")
            client_id = str(frame[10:position], "utf-8")
        elif length != -1:
            raise MalformedMessageError(f"A request's client id declares a length of {length}.")
        if api_version >= REQUEST_FLEXIBLE_FROM.get(api_key, NEVER):
            position = skip_tags(frame, position, [FREE_UNITS]) if frame[position] else position + 1
    except (struct.error, IndexError):
        raise MalformedMessageError(f"A request of {len(frame)} bytes ends within its header.") from None
    except UnicodeDecodeError:
        raise MalformedMessageError("A request's client id is not UTF-8.") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def frame_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: Sequence[Chunk]
) -> list[Chunk]:
    """A whole request, size included, ready for `writelines`."""
    tail = encode_nullable_string(client_id)
    if api_version >= REQUEST_FLEXIBLE_FROM.get(api_key, NEVER):
        tail += b"\0"
    size = 8 + len(tail) + sum(map(len, body))
    return _joined(_pack_request(size, api_key, api_version, correlation_id) + tail, body)


def frame_response(api_key: int, api_version: int, correlation_id: int, body: Sequence[Chunk]) -> list[Chunk]:
    """A whole response, size included, ready for `writelines`."""
    size = 4 + (len(body[0]) if len(body) == 1 else sum(map(len, body)))
    if api_version >= RESPONSE_HEADER_FLEXIBLE_FROM.get(api_key, NEVER):
        head = _pack_flexible_response(size + 1, correlation_id)
    else:
        head = _pack_response(size, correlation_id)
    return _joined(head, body)


def read_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id of a frame, and the start of the body."""
    try:
        (correlation_id,) = _unpack_correlation(frame, 0)
        position = 4
        if api_version >= RESPONSE_HEADER_FLEXIBLE_FROM.get(api_key, NEVER):
            position = skip_tags(frame, position, [FREE_UNITS]) if frame[position] else position + 1
    except (struct.error, IndexError):
        raise MalformedMessageError(f"A response of {len(frame)} bytes ends within its header.") from None
    return correlation_id, position


def _joined(head: bytes, body: Sequence[Chunk]) -> list[Chunk]:
    """Head and body; a small first chunk joins the head, for one chunk less to send."""
    if body and len(body[0]) < LARGE_BYTES:
        return [b"".join((head, body[0])), *body[1:]]
    return [head, *body]
