"""Feeds: messages of a parent that is no Qanat broker become batches at the feed's offsets. Here is the one in JSON:

    GET /api/v1/edge/feed/{topic}?node=local-001&offset=0&limit=100&timeout_ms=25000

    {"topic": "price-topic", "messages": [{"offset": 0, "key": "AAPL", "value": "189.5"}], "next_offset": 1}

Rule 1: a record has the feed's offset, so that the position is the end of the log here as well, and nothing is stored
        twice. The batch reaches to `next_offset`, over offsets that the feed leaves out.
"""

from __future__ import annotations

import time
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from qanat.broker.edge.http_client import HttpClient
from qanat.connection.faults import UnreachableError
from qanat.edge.feeds import Feed, FeedAnswer, FeedGoneError, FeedMessage, FeedOffset
from qanat.edge.key_filter import passing
from qanat.model.errors import QanatError
from qanat.wire.pipe_answer import PipedPartition, PipeFaultError, PipePosition
from qanat.wire.records import Record, encode_batch

_EPOCH = 0
_GONE = 416


class _Gone(Struct, frozen=True):
    log_start_offset: FeedOffset


_ANSWERS = msgspec.json.Decoder(FeedAnswer)
_STARTS = msgspec.json.Decoder(_Gone)


class JsonFeed:
    """A feed in JSON over HTTP."""

    def __init__(self, client: HttpClient, node: str) -> None:
        self._client = client
        self._node = node

    async def pull(self, topic: str, offset: int, limit: int, wait_s: float) -> FeedAnswer:
        query = {"node": self._node, "offset": offset, "limit": limit, "timeout_ms": round(wait_s * 1000)}
        target = f"/api/v1/edge/feed/{quote(topic, safe='')}?{urlencode(query)}"
        answer = await self._client.request("GET", target, wait_s=wait_s, is_repeatable=True)
        if answer.status not in (200, _GONE):
            raise UnreachableError(f"the feed of {topic} answers with status {answer.status}")
        try:
            if answer.status == _GONE:
                raise FeedGoneError(_STARTS.decode(answer.body).log_start_offset)
            return _ANSWERS.decode(answer.body)
        except msgspec.MsgspecError as fault:
            raise PipeFaultError(f"the feed of {topic} cannot be read: {fault}") from None

    async def close(self) -> None:
        """Do nothing: the pipe closes its client."""


async def ask_feed(feed: Feed, position: PipePosition, limit: int, wait_s: float) -> tuple[PipedPartition, memoryview]:
    """What a feed has from a position on, as a parent in batches would say it."""
    try:
        found = await feed.pull(position.topic, position.offset, limit, wait_s)
        records = _batch(found, position)
    except FeedGoneError as gone:
        start = gone.log_start_offset
        return PipedPartition(position.topic, 0, "", start, start, keys=position.keys), memoryview(b"")
    except QanatError:
        raise
    except Exception as fault:  # noqa: BLE001 - a plug-in's fault ends its request, not the pipe
        reason = f"{type(fault).__name__}: {fault}"[:300]
        raise UnreachableError(f"the feed of {position.topic} cannot be read: {reason}") from None
    end = max(found.next_offset, position.offset if not found.messages else 0)
    piece = PipedPartition(position.topic, 0, "", found.log_start_offset, end, size=len(records), keys=position.keys)
    return piece, memoryview(records)


def _batch(found: FeedAnswer, position: PipePosition) -> bytes:
    messages = [one for one in found.messages if one.offset >= position.offset]
    offsets = [one.offset for one in messages]
    if sorted(dict.fromkeys(offsets)) != offsets or (offsets and offsets[-1] >= found.next_offset):
        raise PipeFaultError(f"the feed of {position.topic}: offsets should rise and be below next_offset")
    if not messages:
        return b""
    first = offsets[0]
    if position.keys:
        does_pass = passing(position.keys)
        messages = [one for one in messages if does_pass(None if one.key is None else one.key.encode())]
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
    delta = found.next_offset - 1 - first
    return bytes(encode_batch(records, base_offset=first, last_offset_delta=delta, leader_epoch=_EPOCH))


def _value(message: FeedMessage) -> bytes | None:
    if message.type == "D" or message.value is None:
        return None
    return message.value.encode() if isinstance(message.value, str) else msgspec.json.encode(message.value)
