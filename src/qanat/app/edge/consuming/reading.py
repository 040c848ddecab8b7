"""Queries of stored records: the index finds them, the segments hold them.

Rule 1: a page ends at a number of records or of bytes, and continues by a cursor: the place of its last record.
Rule 2: a row of the index whose record the segments do not hold as it says is damage: the index is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from qanat.app.edge.consuming.record_index import DamagedIndexError, IndexRow, TopicOf, orders_by_time, place_of
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.app.edge.consuming.partition_copy import PartitionCopy
    from qanat.app.edge.consuming.record_store import RecordStore
    from qanat.wire.records import Record

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends when its keys and values are so long."""
KEYS_LOOKED_AT = 10_000
"""Deleted keys are passed over, at most so many in one page."""

Times = tuple[int | None, int | None]


class Query(NamedTuple):
    """What records are asked for; each field narrows it."""

    topic: str
    partition: int | None = None
    key: bytes | None = None
    offsets: Times = (None, None)
    times: Times = (None, None)
    """From one (inclusive) to another (exclusive), of offsets as of times."""

    @property
    def is_by_time(self) -> bool:
        return orders_by_time(self.key, self.times)


class Found(NamedTuple):
    """A stored record."""

    at: TopicPartition
    record: Record
    epoch: int


class Page(NamedTuple):
    """Records, and where the next ones begin; None where there are no more."""

    records: list[Found]
    after: tuple[int, ...] | None


class KeyPage(NamedTuple):
    """The latest records of keys, and the key after which the next ones begin."""

    records: list[Found]
    after: bytes | None


def select(store: RecordStore, query: Query, limit: int, after: tuple[int, ...] = ()) -> Page:
    """A page of records: by partition and offset, or by time where only times are given."""
    rows = _rows(store, query, limit + 1, after)
    found: list[Found] = []
    size = 0
    for row, one in zip(rows, _read(store, query.topic, rows[:limit]), strict=False):
        found.append(one)
        size += len(one.record.key or b"") + len(one.record.value or b"")
        if size >= PAGE_BYTES and len(found) < len(rows):
            return Page(found, place_of(row, is_by_time=query.is_by_time))
    if len(rows) <= limit:
        return Page(found, None)
    return Page(found, place_of(rows[limit - 1], is_by_time=query.is_by_time))


def _rows(store: RecordStore, query: Query, limit: int, after: tuple[int, ...]) -> list[IndexRow]:
    """Rows of what is served; after a refresh that only some partitions took part in, from several generations."""
    served = _served(store, query.topic)
    lists = [
        _of_generation(store, query, generation, partitions, limit, after) for generation, partitions in served.items()
    ]
    if len(lists) <= 1:
        return list(islice(lists[0], limit)) if lists else []
    ordered = merge(*lists, key=lambda row: place_of(row, is_by_time=query.is_by_time))
    return list(islice(ordered, limit))


def _served(store: RecordStore, topic: str) -> dict[int, set[int]]:
    """The generations that are served of a topic, and the partitions of each."""
    found: dict[int, set[int]] = {}
    for at in store.served:
        if at.topic == topic:
            found.setdefault(store.generations.held(at).served, set()).add(at.partition)
    return found


def _of_generation(
    store: RecordStore, query: Query, generation: int, partitions: set[int], limit: int, after: tuple[int, ...]
) -> Iterator[IndexRow]:
    """Rows of one generation, without those of partitions that are served from another one."""
    while True:
        rows = store.index.select(
            TopicOf(generation, query.topic),
            limit=limit,
            partition=query.partition,
            key=query.key,
            offsets=query.offsets,
            times=query.times,
            after=after,
        )
        yield from (row for row in rows if row.partition in partitions)
        if len(rows) < limit:
            return
        after = place_of(rows[-1], is_by_time=query.is_by_time)


def _read(store: RecordStore, topic: str, rows: Iterable[IndexRow]) -> Iterator[Found]:
    """The records of rows, from the segments; neighbours share a batch."""
    served = store.served
    opened: dict[TopicPartition, dict[int, Record]] = {}
    for row in rows:
        at = TopicPartition(topic, row.partition)
        batch = opened.get(at, {})
        if row.offset not in batch:
            batch = opened[at] = _batch_at(served[at], row.offset)
        record = batch.get(row.offset)
        if record is None or record.timestamp != row.timestamp or record.key != row.key:
            raise DamagedIndexError(f"the index says otherwise than the segments about {at} offset {row.offset}")
        yield Found(at, record, served[at].extent.epoch_at(row.offset))


def _batch_at(copy: PartitionCopy, offset: int) -> dict[int, Record]:
    if not copy.extent.start <= offset < copy.extent.end:
        return {}
    records, _ = copy.read(offset, 1)
    return {record.offset: record for record in records}


def one_record(store: RecordStore, at: TopicPartition, offset: int) -> Found | None:
    """The record at an offset."""
    copy = store.served.get(at)
    record = None if copy is None else _batch_at(copy, offset).get(offset)
    return None if record is None or copy is None else Found(at, record, copy.extent.epoch_at(offset))


def latest_of(store: RecordStore, topic: str, key: bytes) -> Found | None:
    """The latest record of a key, a deletion included."""
    rows: list[IndexRow] = []
    for generation, partitions in _served(store, topic).items():
        row = store.index.latest(TopicOf(generation, topic), key, partitions)
        rows += [] if row is None else [row]
    if not rows:
        return None
    newest = max(rows, key=lambda row: (row.timestamp, row.partition, row.offset))
    return next(_read(store, topic, [newest]))


def latest(store: RecordStore, topic: str, prefix: bytes, limit: int, after: bytes | None) -> KeyPage:
    """The latest record of each key, by key; deleted keys are left out."""
    found: list[Found] = []
    size, looked_at = 0, 0
    while len(found) < limit and size < PAGE_BYTES and looked_at < KEYS_LOOKED_AT:
        key = _next_key(store, topic, prefix, after)
        if key is None:
            return KeyPage(found, None)
        one = latest_of(store, topic, key)
        after = key
        looked_at += 1
        if one is not None and one.record.value is not None:
            found.append(one)
            size += len(key) + len(one.record.value)
    more = _next_key(store, topic, prefix, after)
    return KeyPage(found, None if more is None else after)


def _next_key(store: RecordStore, topic: str, prefix: bytes, after: bytes | None) -> bytes | None:
    end = end_of_prefix(prefix)
    keys: Sequence[bytes | None] = [
        store.index.next_key(TopicOf(generation, topic), after, prefix, end) for generation in _served(store, topic)
    ]
    return min((key for key in keys if key is not None), default=None)


def end_of_prefix(prefix: bytes) -> bytes | None:
    """What follows every key with a prefix; None where nothing does.

    >>> end_of_prefix(b"AB"), end_of_prefix(b"A\\xff"), end_of_prefix(b"")
    (b'AC', b'B', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
