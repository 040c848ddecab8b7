"""A complete answer of an operation, and the media types of records."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
NDJSON = b"application/x-ndjson"


class Reply(NamedTuple):
    """A complete answer."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: Headers = ()
