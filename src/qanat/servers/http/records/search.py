"""`GET /api/v1/topics/{topic}/search`: records that meet a condition, a bounded piece of the topic with each request.

A search may read a whole topic. A request reads for at most `budget_ms` and says where it came to (`next_cursor`) and
how much is left: a client repeats it until `is_complete`. So a client that goes costs what is left of one budget, and
nothing is kept between two requests.

Rule 1: requests of clients go first: a search gives way after each piece of work, and rests for as long as it worked.
Rule 2: one search reads at a time; others wait for their turn, within their requests' time.
Rule 3: a batch without the texts that a condition needs is passed unseen; records of others are looked at as they are,
        without an object for each.
Rule 4: conditions may use everything but regular expressions, which may take forever.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from qanat.connection.records.filter_expression import Condition, WrongConditionError
from qanat.servers.http.dead_letters.selecting import Where
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.consume import Isolation, time_of
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST, Cursor
from qanat.servers.http.records.record_json import Encoding, Message, to_decoded_message, to_message
from qanat.servers.http.records.record_parsing import PartitionNumber
from qanat.servers.http.records.value_decoding import DecodingQuery, reader_of
from qanat.wire.record_reader import split_records
from qanat.wire.records import INT64_HALF, wrapped

if TYPE_CHECKING:
    from qanat.cluster import values
    from qanat.servers.http.records.record_json import OpenedBatches
    from qanat.wire.batch_header import BatchHeader, Buffer
    from qanat.wire.record_reader import RawRecord
    from qanat.wire.value_formats import ReadValue

_PIECE_S = 0.002
_CHECKED_AT_ONCE = 32
_FETCH_BYTES = 1024 * 1024
_RETRY_S = 0.05


class SearchQuery(DecodingQuery, frozen=True):
    """What to look for, and where."""

    where: Where | None = None
    """The condition, as of `qanat consume --where`, without `matches`; without it every record. `json` is the decoded
    value."""
    partition: PartitionNumber | None = None
    """Only this partition."""
    cursor: str | None = None
    """Where to go on: `next_cursor` of an earlier answer."""
    begin: str = msgspec.field(name="from", default="earliest")
    """Where to begin without a cursor: `earliest`, `latest`, `offset:17`, or a time in ISO 8601 or milliseconds."""
    last: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """Instead of `from`: so many records before the end of each partition."""
    until: str | None = None
    """Where to end (exclusive): `offset:17`, or a time; without it at the end of now."""
    count: Annotated[int, Meta(ge=1, le=1000)] = 100
    """How many records at most; more than `http.max.poll.records` are never sent."""
    budget_ms: Annotated[int, Meta(ge=1, le=5000)] = 1000
    """How long this request may read."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""


class Found(msgspec.Struct):
    """What was found, and where to go on."""

    messages: list[Message]
    next_cursor: str
    scanned: int
    """Records that this request read."""
    left: int
    """Offsets between `next_cursor` and the end."""
    is_complete: bool
    """False: repeat the request with `next_cursor` to go on."""


class _Search:
    """One request's part of a search."""

    def __init__(
        self, exchange: Exchange, topic: values.Topic, positions: dict[int, int], ends: dict[int, int]
    ) -> None:
        query: SearchQuery = exchange.query
        self._reads = exchange.context.reads
        self._caller = exchange.caller
        self._topic = topic.name
        self._query = query
        condition = condition_of(query.where)
        self._wants = None if condition is None else condition.holds_for
        self._reader = reader_of(exchange, topic.name, query)
        # What a schema makes of a value is not in its bytes.
        self._needles = None if condition is None or self._reader is not None else condition.needles
        self._checked_at_once = _CHECKED_AT_ONCE if self._reader is None else 1
        self._count = min(query.count, exchange.context.settings.http_max_poll_records)
        self._bytes_left = exchange.context.settings.http_answer_max_bytes
        self.positions = positions
        self._ends = ends
        self.messages: list[Message] = []
        self.scanned = 0
        self._until = perf_counter() + query.budget_ms / 1000
        self._piece_began = perf_counter()

    @property
    def left(self) -> dict[int, int]:
        """Positions of the partitions that are not at their end."""
        return {number: at for number, at in self.positions.items() if at < self._ends.get(number, 0)}

    @property
    def _is_over(self) -> bool:
        return len(self.messages) >= self._count or self._bytes_left <= 0 or perf_counter() >= self._until

    async def run(self) -> None:
        while (positions := self.left) and not self._is_over:
            rows = await self._reads.fetch(
                self._caller,
                self._topic,
                positions,
                max_bytes=_FETCH_BYTES,
                wait_ms=0,
                is_committed=self._query.isolation == "read_committed",
            )
            has_failed = False
            for row in rows:
                position = self.positions[row.partition_index]
                await self._reads.check(self._caller, self._topic, row, position)
                if row.error_code:
                    has_failed = True
                    await asyncio.sleep(_RETRY_S)
                elif not self._is_over:
                    await self._scan(row.partition_index, self._reads.opened(row, position), position)
            if not has_failed and not self._is_over and all(self.positions[one] == at for one, at in positions.items()):
                # Partitions may come back empty because others filled the answer; here none had anything.
                self.positions |= {one: self._ends[one] for one in positions}

    async def _scan(self, number: int, batches: OpenedBatches, position: int) -> None:
        """Look at the records of one answer."""
        end = self._ends[number]
        while (opened := await batches.next_payload()) is not None:
            header, payload = opened
            if self._may_skip(header, payload, position, end):
                self.scanned += header.record_count
                self.positions[number] = header.next_offset
            else:
                await self._look_into(number, header, payload, end)
            if perf_counter() - self._piece_began >= _PIECE_S:
                await self._rest()
            if self._is_over or self.positions[number] >= end:
                return
        # What holds no visible record is passed as well.
        self.positions[number] = max(self.positions[number], batches.next_offset)

    def _may_skip(self, header: BatchHeader, payload: Buffer, position: int, end: int) -> bool:
        """Whether a batch lies within the range as a whole, and lacks what the condition needs."""
        if not self._needles or header.base_offset < position or header.next_offset > end:
            return False
        return not self._needles.may_be_in(payload if isinstance(payload, bytes) else bytes(payload))

    async def _look_into(self, number: int, header: BatchHeader, payload: Buffer, end: int) -> None:
        """Look at each record of a batch."""
        records = split_records(payload, header.record_count, header.last_offset_delta)
        for begin in range(0, len(records), self._checked_at_once):
            if self._is_over or self.positions[number] >= end:
                return
            self._check(number, header, records[begin : begin + self._checked_at_once], end)
            if perf_counter() - self._piece_began >= _PIECE_S:
                await self._rest()

    def _check(self, number: int, header: BatchHeader, records: list[RawRecord], end: int) -> None:
        """Keep those of some records that meet the condition."""
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
        fixed = header.max_timestamp if header.is_log_append_time else None
        reader, wants = self._reader, self._wants
        position = self.positions[number]
        for raw in records:
            offset = base_offset + raw[2]
            if offset < position:
                continue
            if offset >= end:
                self.positions[number] = end
                return
            timestamp = base_timestamp + raw[1] if fixed is None else fixed
            if not -INT64_HALF <= timestamp < INT64_HALF:
                timestamp = wrapped(timestamp)
            found = None if reader is None or raw[4] is None else reader.read(raw[4])
            value = raw[4] if found is None or found.text is None else found.text
            self.scanned += 1
            if wants is None or wants((number, offset, timestamp, raw[3], value, raw[5])):
                self.positions[number] = offset + 1
                self.messages.append(self._message(number, offset, timestamp, raw, found))
                self._bytes_left -= len(raw[3] or b"") + len(value or b"")
                if self._is_over:
                    return
        self.positions[number] = max(position, base_offset + records[-1][2] + 1)

    def _message(self, number: int, offset: int, timestamp: int, raw: RawRecord, found: ReadValue | None) -> Message:
        if found is None or self._reader is None:
            return to_message(number, offset, timestamp, raw, self._query.encoding)
        return to_decoded_message(number, offset, timestamp, raw, self._query.encoding, found, self._reader.format)

    async def _rest(self) -> None:
        """Give way to everything else, for as long as the piece took."""
        await asyncio.sleep(perf_counter() - self._piece_began)
        self._piece_began = perf_counter()


def condition_of(where: str | None) -> Condition | None:
    """The parsed condition; raises a problem that names the part that is not understood."""
    if where is None or not where.strip():
        return None
    try:
        return Condition(where, "where", is_bounded=True)
    except WrongConditionError as fault:
        raise Problem(400, str(fault), parameter="where") from None


async def search_topic(exchange: Exchange) -> Found:
    query: SearchQuery = exchange.query
    context = exchange.context
    condition_of(query.where)
    topic = await context.topics.find(exchange.caller, exchange.path["topic"], may_create=False)
    numbers = list(range(len(topic.partitions)))
    if query.partition is not None:
        context.topics.check_partition(topic, query.partition)
        numbers = [query.partition]
    first, last = await context.reads.offset_ranges(exchange.caller, topic.name, numbers)
    ends = await _places(exchange, topic.name, query.until, last, first, last)
    whole = Cursor(topic.topic_id, [0] * len(topic.partitions))
    if query.cursor is not None:
        whole = Cursor.parse(query.cursor, topic)
        begins = {number: whole.offsets[number] for number in numbers}
    elif query.last is not None:
        begins = {number: max(first[number], ends[number] - query.last) for number in numbers}
    else:
        begins = await _places(exchange, topic.name, query.begin, first, first, last)
    positions = {number: max(first[number], begins[number]) for number in numbers}
    search = _Search(exchange, topic, positions, ends)
    gone = asyncio.ensure_future(exchange.wait_until_gone())
    work = asyncio.ensure_future(_in_turn(exchange, search))
    try:
        await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            work.result()
    finally:
        gone.cancel()
        work.cancel()
    for number, at in search.positions.items():
        whole.offsets[number] = at
    left = search.left
    remaining = sum(ends[number] - at for number, at in left.items())
    return Found(search.messages, str(whole), search.scanned, remaining, not left)


async def search_by_body(exchange: Exchange) -> Found:
    exchange.query = exchange.body
    return await search_topic(exchange)


async def _in_turn(exchange: Exchange, search: _Search) -> None:
    async with exchange.context.searching:
        await search.run()


async def _places(
    exchange: Exchange,
    topic: str,
    text: str | None,
    otherwise: dict[int, int],
    first: dict[int, int],
    last: dict[int, int],
) -> dict[int, int]:
    """Offsets at a place: `offset:17`, or a time; within the partitions."""
    if text is None:
        return dict(otherwise)
    kind, separator, digits = text.partition(":")
    if separator and kind == "offset":
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise Problem(400, f"{text[:100]!r} should read offset:17, or be a time")
        return {number: min(max(int(digits), first[number]), last[number]) for number in first}
    moment = time_of(text)
    if moment in (EARLIEST, LATEST):
        return dict(first if moment == EARLIEST else last)
    found = await exchange.context.reads.offsets_at(exchange.caller, topic, list(first), moment)
    return {number: min(max(found[number], first[number]), last[number]) for number in first}


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/topics/{topic}/search",
        search_topic,
        "Search a topic: records that meet a condition, a bounded piece with each request",
        "records",
        query=SearchQuery,
        answer=Found,
    ),
    Operation(
        "POST",
        "/api/v1/topics/{topic}/search",
        search_by_body,
        "The same with its parameters in a body, for schemas that are too long for an address",
        "records",
        body=SearchQuery,
        answer=Found,
    ),
)
