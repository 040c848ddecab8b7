"""Operations that write records: `POST /produce`, and the same under a topic."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from qanat.broker.runtime.cooperative_yield import FEW_ROWS, CooperativeYield
from qanat.cluster import values
from qanat.servers.http.application import media_type_of, require_json
from qanat.servers.http.exchange import Exchange, check_document
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.columnar_lines import ColumnarWriter, Piece, read_columns
from qanat.servers.http.records.idempotency import Job, fingerprint_of
from qanat.servers.http.records.produce_results import Produced, ProducedMany, ProducedOrNot, many_reply, one_reply
from qanat.servers.http.records.record_parsing import (
    Acks,
    ProduceBody,
    ProducerRecord,
    RecordIn,
    RecordsIn,
    TopicName,
    check_text,
    now_ms,
    producer_record,
    read_json,
    read_lines,
)
from qanat.servers.http.records.record_routing import ACKS
from qanat.servers.http.records.trace_context import trace_headers, traced
from qanat.servers.http.reply import JSON, NDJSON, Reply
from qanat.servers.http.topic_lookup import refuse_internal

_LINES = (NDJSON, b"application/ndjson", b"application/jsonl", b"application/json-lines", b"application/jsonlines")
_KEY_MAX = 255
_ONE_PIECE = 2_000
"""Records that are prepared in one piece, between two yields."""


class ProduceQuery(Parameters, frozen=True):
    """How to write records."""

    topic: TopicName | None = None
    """Topic of records that name none."""
    acks: Acks | None = None
    """`all`: answered once the record is on every in-sync replica's disk; `leader`: once the leader has it; `none`: at
    once, without an offset. Without it `http.acks` holds, which is `all`."""


class TopicProduceQuery(Parameters, frozen=True):
    """How to write records."""

    acks: Acks | None = None
    """`all`, `leader` or `none`."""


async def produce(exchange: Exchange) -> Reply:
    query: ProduceQuery = exchange.query
    return await _produce(exchange, query.topic, query.acks)


async def produce_to_topic(exchange: Exchange) -> Reply:
    query: TopicProduceQuery = exchange.query
    return await _produce(exchange, exchange.path["topic"], query.acks)


async def _produce(exchange: Exchange, topic: str | None, acks: Acks | None) -> Reply:
    is_lines = media_type_of(exchange) in _LINES
    if not is_lines:
        require_json(exchange)
    body: bytes = exchange.body
    key = exchange.header(b"idempotency-key")
    if is_lines and topic is not None and key is None and not trace_headers(exchange):
        check_text(body)
        pieces = await read_columns(body)
        if pieces is not None:
            return await _produce_columns(exchange, topic, pieces, ACKS[acks or exchange.context.settings.http_acks])
    if is_lines:
        body_records = await read_lines(body)
    else:
        check_document(exchange, body)
        body_records = read_json(body)
    if topic is not None and body_records.topic not in (None, topic):
        raise Problem(400, f"the body names topic {body_records.topic}, the address {topic}: name one")
    wanted = ACKS[acks or body_records.acks or exchange.context.settings.http_acks]
    topic = topic or body_records.topic
    if key is not None:
        return await _produce_once(exchange, body_records, topic, key, fingerprint_of((topic or "").encode(), body))
    if body_records.is_single:
        return await _produce_one(exchange, body_records.records[0], topic, wanted)
    return await _produce_many(exchange, body_records, topic, wanted)


async def _produce_one(exchange: Exchange, record: RecordIn, topic: str | None, acks: int) -> Reply:
    context = exchange.context
    ready = producer_record(record, topic, now_ms())
    if trace := trace_headers(exchange):
        ready.headers = traced(ready.headers, trace)
    refuse_internal(ready.topic)
    found = context.broker.metadata.image.topics.get(ready.topic)
    if found is None or context.gateway.is_authorized:
        found = await context.topics.find(exchange.caller, ready.topic)
    context.router.choose_partition(ready, len(found.partitions))
    if (ready.topic, ready.partition) not in context.broker.local_replicas.writable:
        await context.topics.find(exchange.caller, ready.topic)
    offset = await context.router.write_one(exchange.caller, ready, acks)
    if acks == 0:
        return Reply(202, b'{"partition":%d,"offset":null}' % ready.partition)
    return one_reply(ready.partition, offset)


async def _produce_columns(exchange: Exchange, topic: str, pieces: list[Piece], acks: int) -> Reply:
    refuse_internal(topic)
    found = await exchange.context.topics.find(exchange.caller, topic)
    writer = ColumnarWriter(exchange.context.router, exchange.caller, topic, len(found.partitions), acks)
    for piece in pieces:
        await writer.write(piece)
        await asyncio.sleep(0)
    await writer.finish()
    return many_reply(writer.results, writer.failed)


async def _produce_once(
    exchange: Exchange, body_records: ProduceBody, topic: str | None, key: bytes, fingerprint: str
) -> Reply:
    """Under an Idempotency-Key: all records or none, and once however often the request is sent."""
    name = key.decode("latin-1").strip()
    if not name or len(name) > _KEY_MAX:
        raise Problem(400, f"an Idempotency-Key has 1 to {_KEY_MAX} characters, this has {len(name)}")
    if not body_records.records:
        raise Problem(400, "there is no record in the request")

    async def prepare() -> list[ProducerRecord]:
        records: list[ProducerRecord] = []
        for one in await prepare_records(exchange, body_records, topic):
            if isinstance(one, Problem):
                raise one
            records.append(one)
        exchange.context.gateway.require_write(exchange.caller, {record.topic for record in records})
        return records

    job = Job(f"{exchange.caller.principal}/{name}", fingerprint, prepare, body_records.is_single)
    return await exchange.context.idempotency.answer(job)


async def prepare_records(
    exchange: Exchange, body_records: ProduceBody, topic: str | None
) -> list[ProducerRecord | Problem]:
    """Every record with its partition, or its problem."""
    context = exchange.context
    now, yielder, trace = now_ms(), CooperativeYield(), trace_headers(exchange)
    topics: dict[str, values.Topic] = {}
    ready: list[ProducerRecord | Problem] = []
    choose_partition = context.router.choose_partition
    async for piece in yielder.pieces(body_records.records):
        for record in piece:
            try:
                one = producer_record(record, topic, now)
                if trace:
                    one.headers = traced(one.headers, trace)
                found = topics.get(one.topic)
                if found is None:
                    refuse_internal(one.topic)
                    found = topics[one.topic] = await context.topics.find(exchange.caller, one.topic)
                choose_partition(one, len(found.partitions))
                ready.append(one)
            except Problem as problem:
                ready.append(problem)
    return ready


async def _produce_many(exchange: Exchange, body_records: ProduceBody, topic: str | None, acks: int) -> Reply:
    ready = await prepare_records(exchange, body_records, topic)
    good = [one for one in ready if isinstance(one, ProducerRecord)]
    written = iter(await exchange.context.router.write(exchange.caller, good, acks))
    results: list[ProducedOrNot] = []
    failed = 0
    for number, one in enumerate(ready):
        outcome = one if isinstance(one, Problem) else next(written)
        if isinstance(outcome, Problem):
            failed += 1
            results.append(ProducedOrNot(problem=outcome.document()))
        else:
            assert isinstance(one, ProducerRecord)
            results.append(ProducedOrNot(one.partition, outcome if acks else None))
        if number % FEW_ROWS == FEW_ROWS - 1 and number % _ONE_PIECE > _ONE_PIECE - FEW_ROWS:
            await CooperativeYield().yield_now()
    return many_reply(results, failed)


_HEADERS = {
    "Idempotency-Key": "A name for this request: sent again with the same name, it writes nothing and gets its first "
    "answer. All its records are written, or none. Kept for 24 hours (http.idempotency.retention.ms).",
    "traceparent": "W3C trace context: becomes a header of every record that has none, as does tracestate.",
}
_BODIES: dict[str, Any] = {
    JSON.decode(): (RecordIn, list[RecordIn], RecordsIn),
    NDJSON.decode(): Annotated[str, Meta(description="A record a line.")],
}

OPERATIONS = (
    Operation(
        "POST",
        "/produce",
        produce,
        "Write one record, several (an array, or `records`), or a stream of lines",
        "records",
        query=ProduceQuery,
        bodies=_BODIES,
        answer=(Produced, ProducedMany),
        statuses=(202, 207),
        waits=True,
        headers=_HEADERS,
    ),
    Operation(
        "POST",
        "/api/v1/topics/{topic}/records",
        produce_to_topic,
        "Write records to a topic",
        "records",
        query=TopicProduceQuery,
        bodies=_BODIES,
        answer=(Produced, ProducedMany),
        statuses=(202, 207),
        waits=True,
        headers=_HEADERS,
    ),
)
