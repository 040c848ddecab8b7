"""`POST /produce`, the short way: one record as JSON into a partition that this broker leads, which most requests are.

The same as the long way (`application`, `produce`), with nothing made that this one does not need. Whatever is not as
usual (headers with a meaning, a query, a guard, another body, a refusal) goes the long way from the start, with the
body that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.servers.http.caller import Caller
from qanat.servers.http.exchange import JSON, Receive, Scope
from qanat.servers.http.problems import Problem
from qanat.servers.http.protocol import write_whole
from qanat.servers.http.records.record_parsing import RecordIn, now_ms, outgoing

if TYPE_CHECKING:
    from qanat.servers.http.context import HttpContext

PATH = "/produce"
_ONE = msgspec.json.Decoder(RecordIn)
_HEADERS = ((b"content-type", JSON),)
_WITH_MEANING = frozenset(
    (b"idempotency-key", b"content-encoding", b"origin", b"authorization", b"expect", b"transfer-encoding")
)
_SMALL = 64 * 1024
_ALL = -1


def is_usual(door: HttpContext, scope: Scope) -> bool:
    """Whether the short way may be tried."""
    if scope["method"] != "POST" or scope["query_string"] or door.mechanisms is not None or door.asking.is_authorized:
        return False
    is_json = False
    for name, value in scope["headers"]:
        if name == b"content-type":
            is_json = value == JSON
        elif name in _WITH_MEANING:
            return False
    return is_json and door.settings.http_acks == "all"


async def produce_quickly(door: HttpContext, scope: Scope, receive: Receive) -> Receive | None:
    """Answer; or, where that is not possible so, what the long way reads the body from."""
    message = await receive()
    body = message.get("body", b"")
    limit = min(_SMALL, door.settings.http_request_max_bytes, door.settings.http_document_max_bytes)
    if message["type"] != "http.request" or message["more_body"] or len(body) > limit or not body.isascii():
        return _again(message, receive)
    try:
        record = _ONE.decode(body)
        ready = outgoing(record, None, now_ms())
        topic = door.broker.metadata.image.topics.get(ready.topic)
        if topic is None or record.acks not in (None, "all"):
            return _again(message, receive)
        door.producing.place(ready, len(topic.partitions))
    except (msgspec.DecodeError, RecursionError, Problem):
        return _again(message, receive)
    if door.producing.direct(ready.topic, ready.partition, _ALL) is None:
        return _again(message, receive)
    offset = await door.producing.write_one(Caller(scope["client"]), ready, _ALL)
    counters = door.counters
    counters.answered["produce", 200] = counters.answered.get(("produce", 200), 0) + 1
    write_whole(scope["cycle"], 200, _HEADERS, b'{"partition":%d,"offset":%d}' % (ready.partition, offset))
    return None


def _again(message: object, receive: Receive) -> Receive:
    """What was read, for whoever reads from the start."""
    left = [message]

    async def read_again() -> object:
        return left.pop() if left else await receive()

    return read_again  # type: ignore[return-value]
