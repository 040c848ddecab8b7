"""Feeds in JSON: a parent that is no Qanat broker answers with messages, which become batches at the feed's offsets.

    GET /api/v1/edge/feed/{topic}?node=local-001&offset=0&limit=100&timeout_ms=25000

    {"topic": "price-topic", "messages": [{"offset": 0, "key": "AAPL", "value": "189.5"}], "next_offset": 1}

Rule 1: a record has the feed's offset, so that the position is the end of the log here as well, and nothing is stored
        twice. The batch reaches to `next_offset`, over offsets that the feed leaves out.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta, Struct, field

from qanat.broker.edge.http_client import HttpClient
from qanat.connection.faults import UnreachableError
from qanat.wire.pipe_answer import PipedPartition, PipeFaultError, PipePosition
from qanat.wire.records import Record, encode_batch

_EPOCH = 0
_GONE = 416
Offset = Annotated[int, Meta(ge=0, le=2**62)]


class FeedMessage(Struct, frozen=True):
    """One message."""

    offset: Offset
    type: Literal["M", "D"] = "M"
    timestamp: int | None = None
    """Milliseconds since 1970; the time of arrival without one."""
    key: str | None = None
    value: Any = None
    """Text as it is, any other JSON as its text."""
    headers: dict[str, str] = field(default_factory=dict)


class FeedAnswer(Struct, frozen=True):
    """Messages from an offset on."""

    messages: list[FeedMessage]
    next_offset: Offset
    log_start_offset: Offset = 0


class _Gone(Struct, frozen=True):
    log_start_offset: Offset


_ANSWERS = msgspec.json.Decoder(FeedAnswer)
_STARTS = msgspec.json.Decoder(_Gone)


async def ask_feed(
    client: HttpClient, node: str, position: PipePosition, limit: int, wait_s: float
) -> tuple[PipedPartition, memoryview]:
    """What a feed has from a position on, as a parent in batches would say it."""
    query = {"node": node, "offset": position.offset, "limit": limit, "timeout_ms": round(wait_s * 1000)}
    target = f"/api/v1/edge/feed/{quote(position.topic, safe='')}?{urlencode(query)}"
    answer = await client.request("GET", target, wait_s=wait_s, is_repeatable=True)
    if answer.status not in (200, _GONE):
        raise UnreachableError(f"the feed of {position.topic} answers with status {answer.status}")
    try:
        if answer.status == _GONE:
            start = _STARTS.decode(answer.body).log_start_offset
            return PipedPartition(position.topic, 0, "", start, start), memoryview(b"")
        found = _ANSWERS.decode(answer.body)
    except msgspec.MsgspecError as fault:
        raise PipeFaultError(f"the feed of {position.topic} cannot be read: {fault}") from None
    records = _batch(found, position)
    end = max(found.next_offset, position.offset if not found.messages else 0)
    piece = PipedPartition(position.topic, 0, "", found.log_start_offset, end, size=len(records))
    return piece, memoryview(records)


def _batch(found: FeedAnswer, position: PipePosition) -> bytes:
    messages = [one for one in found.messages if one.offset >= position.offset]
    offsets = [one.offset for one in messages]
    if sorted(dict.fromkeys(offsets)) != offsets or (offsets and offsets[-1] >= found.next_offset):
        raise PipeFaultError(f"the feed of {position.topic}: offsets should rise and be below next_offset")
    if not messages:
        return b""
    now_ms = time.time_ns() // 1_000_000
    records = [
        Record(
            offset=one.offset,
            timestamp=now_ms if one.timestamp is None else one.timestamp,
            key=None if one.key is None else one.key.encode(),
            value=_value(one),
            headers=tuple((name, text.encode()) for name, text in one.headers.items()),
        )
        for one in messages
    ]
    delta = found.next_offset - 1 - offsets[0]
    return bytes(encode_batch(records, last_offset_delta=delta, leader_epoch=_EPOCH))


def _value(message: FeedMessage) -> bytes | None:
    if message.type == "D" or message.value is None:
        return None
    return message.value.encode() if isinstance(message.value, str) else msgspec.json.encode(message.value)
