"""What both consumers share: taking records out of the buffer, decoding keys and values, counting what is finished."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

from qanat.client.consumer.consumer_core import ConsumerCore
from qanat.client.consumer.group_metadata import ConsumerGroupMetadata, ConsumerHealth
from qanat.client.errors import SerializationError
from qanat.client.records import Headers, Record
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.model.ids import TopicPartition


class Deserializer(Protocol):
    """Reads values from bytes."""

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        """The value; raises `SerializationError`."""


def deserializer_of(spec: object) -> Deserializer | None:
    """The deserializer that a setting stands for; None for bytes as they are."""
    if spec is None or spec == "bytes" or spec is bytes:
        return None
    if hasattr(spec, "decode") and not isinstance(spec, str | bytes | type):
        return spec
    found: Deserializer = import_module("qanat.client.serializers.lookup").deserializer(spec)
    return found


class Reading:
    """The user's side of a consumer's buffer; one thread or task at a time."""

    def __init__(self, core: ConsumerCore, key: object, value: object) -> None:
        self.core = core
        self.buffer = core.buffer
        settings = core.settings
        self._key = deserializer_of(settings.key_deserializer if key is None else key)
        self._value = deserializer_of(settings.value_deserializer if value is None else value)
        self._is_decoding = self._key is not None or self._value is not None
        self._asked_at_s = time.monotonic()

    # Records

    def take(self, most: int) -> list[Any]:
        """Up to so many records, all handed out; raises what the user must hear where there are none."""
        self._asked_at_s = time.monotonic()
        records = self.buffer.take(most)
        if not records:
            self.check()
        elif self._is_decoding:
            return self._decoded(records)
        return records

    def take_one_by_one(self, most: int) -> list[Any]:
        """The same for `walk`."""
        self._asked_at_s = time.monotonic()
        records = self.buffer.take(most, is_one_by_one=True)
        if not records:
            self.check()
        return records

    def walk(self, records: list[Any]) -> Iterator[Any]:
        """Hand out one by one: a record is finished when the next is asked for."""
        buffer, now_s = self.buffer, time.monotonic
        while records:
            hand, version = buffer.hand, buffer.version
            for index, record in enumerate(records, 1):
                if self._is_decoding:
                    self._decode(record)
                hand.given = index
                yield record
                hand.done = index
                self._asked_at_s = now_s()
                if buffer.version != version:
                    records = buffer.still_counts(index)
                    break
            else:
                return

    @property
    def has_something(self) -> bool:
        """Whether `take` has something to say."""
        return self.buffer.has_ready or self.core.fatal is not None or bool(self.core.reports)

    def check(self) -> None:
        """Raise what the user must hear."""
        if self.core.reports:
            raise self.core.reports.pop(0)
        if self.core.fatal is not None:
            raise self.core.fatal

    def _decoded(self, records: list[Any]) -> list[Any]:
        """Decode in place, up to the first record that cannot be: it is the first of the next call, which raises."""
        for index, record in enumerate(records):
            try:
                self._decode(record)
            except SerializationError:
                self.buffer.hand.given = index
                if index == 0:
                    raise
                return records[:index]
        return records

    def _decode(self, record: Record[Any, Any]) -> None:
        try:
            key = record.key if self._key is None else self._key.decode(record.topic, record.key, record.headers)
            if self._value is not None:
                record.value = self._value.decode(record.topic, record.value, record.headers)
            record.key = key
        except SerializationError as fault:
            at = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise SerializationError(f"{at}: {fault}; seek past it to continue") from fault

    # State

    @property
    def lag(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for at, one in self.buffer.partitions.items():
            position = self.buffer.position(at)
            found[at] = max(0, one.end_offset - position) if position >= 0 and one.end_offset >= 0 else -1
        return found

    def pause(self, partitions: tuple[TopicPartition, ...], is_paused: bool) -> None:
        for at in partitions:
            self.buffer.pause(self.core.partition(at), is_paused)
        self.core.wake()

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        return self.core.group_metadata

    @property
    def health(self) -> ConsumerHealth:
        since_s = time.monotonic() - self._asked_at_s
        is_late = self.buffer.hand.given > 0 and since_s > self.core.settings.max_poll_interval_ms / 1000
        return ConsumerHealth(self.core.is_joined, since_s, is_late, self.core.group_trouble or self.core.problem)


def commit_values(
    offsets: Mapping[TopicPartition, int | CommittedOffset] | None,
) -> dict[TopicPartition, CommittedOffset] | None:
    """Offsets as the user gives them."""
    if offsets is None:
        return None
    return {
        TopicPartition(*at): one if isinstance(one, CommittedOffset) else CommittedOffset(int(one))
        for at, one in offsets.items()
    }
