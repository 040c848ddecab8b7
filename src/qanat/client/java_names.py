"""The names of Java's clients, so that its examples translate line by line.

    props = {"bootstrap.servers": "localhost:9092", "key.serializer": "org.apache...StringSerializer", ...}
    with MessageProducer(props) as producer:
        producer.send(ProducerRecord("test-topic", "key1", "Hello World!"))

    with MessageConsumer(props | {"group.id": "test-group"}) as consumer:
        consumer.subscribe(["test-topic"])
        for record in consumer.poll(timedelta(milliseconds=100)):
            print(record.value())

They are thin: `Producer` and `Consumer` do the work, with their settings and errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from qanat.client.errors import ClientError, ClosedError
from qanat.client.records import Headers, Receipt, Record
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.client.consumer.sync_consumer import Consumer

_FOREIGN_PRODUCER = ("group.id", "group_id", "key.deserializer", "value.deserializer")
_FOREIGN_CONSUMER = ("key.serializer", "value.serializer", "acks", "linger.ms", "batch.size")


class ProducerRecord:
    """A record to be sent: `(topic, value)`, `(topic, key, value)` or `(topic, partition, key, value)`."""

    __slots__ = ("_headers", "_key", "_partition", "_timestamp", "_topic", "_value")

    def __init__(
        self, topic: str, *fields: Any, timestamp: int | None = None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        if not 1 <= len(fields) <= 3:
            raise ClientError(
                "a ProducerRecord is (topic, value), (topic, key, value) or (topic, partition, key, value)"
            )
        self._topic = topic
        self._value = fields[-1]
        self._key = fields[-2] if len(fields) > 1 else None
        self._partition: int | None = fields[0] if len(fields) == 3 else None
        self._timestamp = timestamp
        self._headers = tuple(headers)

    def __repr__(self) -> str:
        return f"ProducerRecord(topic={self._topic!r}, key={self._key!r}, value={self._value!r})"

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def key(self) -> Any:
        return self._key

    def value(self) -> Any:
        return self._value

    def timestamp(self) -> int | None:
        return self._timestamp

    def headers(self) -> Headers:
        return self._headers


class MessageProducer:
    """A producer of a dictionary of settings, as Java's `Properties`."""

    def __init__(self, props: Mapping[str, object]) -> None:
        from qanat.client.producer.sync_producer import Producer

        settings = {name: value for name, value in props.items() if name not in _FOREIGN_PRODUCER}
        key, value = settings.pop("key.serializer", None), settings.pop("value.serializer", None)
        self._producer = Producer(settings, key=key, value=value)

    def send(self, record: ProducerRecord) -> Receipt:
        """Send a record; `get()` of Java's future is `result()` of the receipt."""
        return self._producer.send(
            record.topic(),
            record.value(),
            key=record.key(),
            headers=record.headers(),
            partition=record.partition(),
            timestamp_ms=record.timestamp(),
        )

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ConsumerRecord:
    """A received record, with Java's methods."""

    __slots__ = ("_record",)

    def __init__(self, record: Record[Any, Any]) -> None:
        self._record = record

    def __repr__(self) -> str:
        return f"ConsumerRecord(topic={self.topic()!r}, partition={self.partition()}, offset={self.offset()})"

    def topic(self) -> str:
        return self._record.topic

    def partition(self) -> int:
        return self._record.partition

    def offset(self) -> int:
        return self._record.offset

    def timestamp(self) -> int:
        return self._record.timestamp_ms

    def key(self) -> Any:
        return self._record.key

    def value(self) -> Any:
        return self._record.value

    def headers(self) -> Headers:
        return self._record.headers


class ConsumerRecords:
    """The records of one poll."""

    def __init__(self, records: Sequence[Record[Any, Any]]) -> None:
        self._records = [ConsumerRecord(one) for one in records]

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def count(self) -> int:
        return len(self._records)

    def is_empty(self) -> bool:
        return not self._records

    def records(self, topic: str) -> list[ConsumerRecord]:
        """Those of one topic."""
        return [one for one in self._records if one.topic() == topic]


class MessageConsumer:
    """A consumer of a dictionary of settings, as Java's `Properties`."""

    def __init__(self, props: Mapping[str, object]) -> None:
        settings = {name: value for name, value in props.items() if name not in _FOREIGN_CONSUMER}
        self._key, self._value = settings.pop("key.deserializer", None), settings.pop("value.deserializer", None)
        group = settings.pop("group.id", None)
        self._group = None if group is None else str(group)
        self._settings = settings
        self._consumer: Consumer | None = None
        self._is_closed = False

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics from now on."""
        from qanat.client.consumer.sync_consumer import Consumer

        if self._is_closed:
            raise ClosedError("the consumer is closed: make another one")
        names = [topics] if isinstance(topics, str) else list(topics)
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = Consumer(self._settings, *names, group=self._group, key=self._key, value=self._value)
        self._consumer.start()

    def poll(self, timeout: timedelta | float) -> ConsumerRecords:
        """Records that arrive within the timeout: a timedelta for Java's Duration, or seconds."""
        timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        return ConsumerRecords(self._used().poll(timeout_s=timeout_s))

    def commit_sync(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit what was polled, or these offsets; Java's `commitSync`."""
        self._used().commit(offsets)

    def close(self) -> None:
        self._is_closed = True
        if self._consumer is not None:
            self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _used(self) -> Consumer:
        if self._consumer is None or self._is_closed:
            raise ClosedError(
                "the consumer is closed: make another one"
                if self._is_closed
                else "the consumer reads no topic yet: call subscribe([...]) first"
            )
        return self._consumer
