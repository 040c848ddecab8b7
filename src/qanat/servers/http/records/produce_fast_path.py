"""The fast path of `POST /produce`: one record as JSON for a partition that this broker leads, as most requests are.

It answers as the ordinary path does (`application`, `produce`) and makes nothing that this request does not need; both
append, acknowledge, authorize and account by the same. A request that is not of this form (headers with a meaning, a
query, a password, another body), or that is refused, takes the ordinary path from the start, with the body that was
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.api.records.append import ALL
from qanat.servers.http.exchange import Receive, Scope
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.produce_results import one_reply
from qanat.servers.http.records.record_parsing import RecordIn, now_ms, producer_record
from qanat.servers.http.reply import JSON, Reply

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.context import HttpContext

PATH = "/produce"
_ONE = msgspec.json.Decoder(RecordIn)
_WITH_MEANING = frozenset(
    (
        b"idempotency-key",
        b"content-encoding",
        b"origin",
        b"authorization",
        b"expect",
        b"traceparent",
        b"transfer-encoding",
    )
)
_SMALL = 64 * 1024


def may_take_fast_path(context: HttpContext, scope: Scope) -> bool:
    """Whether a request may take the fast path, by all but its body."""
    if scope["method"] != "POST" or scope["query_string"] or context.authentication.is_required:
        return False
    is_json = False
    for name, value in scope["headers"]:
        if name == b"content-type":
            is_json = value == JSON
        elif name == b"host":
            if value not in context.hosts.known:
                return False
        elif name in _WITH_MEANING:
            return False
    return is_json and context.settings.http_acks == "all"


async def produce_fast(context: HttpContext, caller: HttpCaller, scope: Scope, receive: Receive) -> Reply | Receive:
    """The answer; or what the ordinary path reads the body from."""
    message = await receive()
    body = message.get("body", b"")
    limit = min(_SMALL, context.settings.http_request_max_bytes, context.settings.http_document_max_bytes)
    if message["type"] != "http.request" or message["more_body"] or len(body) > limit or not body.isascii():
        return _replay(message, receive)
    try:
        record = _ONE.decode(body)
        ready = producer_record(record, None, now_ms())
        topic = context.broker.metadata.image.topics.get(ready.topic)
        if topic is None or record.acks not in (None, "all"):
            return _replay(message, receive)
        context.router.choose_partition(ready, len(topic.partitions))
    except (msgspec.DecodeError, RecursionError, Problem):
        return _replay(message, receive)
    partition = context.router.find_led(caller, ready.topic, ready.partition, ALL)
    if partition is None:
        if ready.key is None and record.partition is None:
            context.router.give_back_turn(ready.topic)
        return _replay(message, receive)
    offset = await context.router.append_one(caller, partition, ready, ALL)
    return one_reply(ready.partition, offset)


def _replay(message: object, receive: Receive) -> Receive:
    """A source that starts again with the message that was read."""
    left = [message]

    async def read_again() -> object:
        return left.pop() if left else await receive()

    return read_again  # type: ignore[return-value]
