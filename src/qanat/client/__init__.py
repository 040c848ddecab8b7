"""Qanat's Python client, for any broker that speaks Kafka's protocol.

- `errors`    what goes wrong, each with what to do
- `settings`  settings by Python's names or Kafka's, of every client
- `io_loop`   where the client's network traffic runs: a thread, or the caller's event loop
- `records`   records, receipts, and where a record was written
- `producer`  `Producer` and `AsyncProducer`
- `consumer`  `Consumer` and `AsyncConsumer`
- `queue`     `QueueConsumer` and `AsyncQueueConsumer`

It stands on `connection` and imports nothing of a broker. Names are imported on first use, so that
`import qanat.client` costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.client.consumer.async_consumer import AsyncConsumer
    from qanat.client.consumer.group_metadata import ConsumerGroupMetadata, ConsumerHealth
    from qanat.client.consumer.offset_stores import CalledOffsets, OffsetStore, SqliteOffsets
    from qanat.client.consumer.sync_consumer import Consumer
    from qanat.client.errors import (
        ClientError,
        ClosedError,
        DeliveryError,
        FencedError,
        ForkedError,
        LockLostError,
        MessageTooLargeError,
        SerializationError,
        SignatureError,
        TransactionError,
        UnknownSettingError,
    )
    from qanat.client.io_loop import IoLoop
    from qanat.client.producer.async_producer import AsyncProducer, Transaction
    from qanat.client.producer.sync_producer import Producer
    from qanat.client.queue.consumers import AsyncQueueConsumer, QueueConsumer
    from qanat.client.queue.verdicts import FencingToken, Verdict
    from qanat.client.records import Metadata, Receipt, Record
    from qanat.model.ids import TopicPartition

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "CalledOffsets",
    "AsyncQueueConsumer",
    "ClientError",
    "ClosedError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "DeliveryError",
    "FencedError",
    "FencingToken",
    "ForkedError",
    "IoLoop",
    "LockLostError",
    "MessageTooLargeError",
    "Metadata",
    "OffsetStore",
    "Producer",
    "QueueConsumer",
    "Receipt",
    "Record",
    "SerializationError",
    "SignatureError",
    "SqliteOffsets",
    "TopicPartition",
    "Transaction",
    "TransactionError",
    "UnknownSettingError",
    "Verdict",
]

_HOMES = {
    "AsyncConsumer": "qanat.client.consumer.async_consumer",
    "AsyncProducer": "qanat.client.producer.async_producer",
    "CalledOffsets": "qanat.client.consumer.offset_stores",
    "AsyncQueueConsumer": "qanat.client.queue.consumers",
    "QueueConsumer": "qanat.client.queue.consumers",
    "FencingToken": "qanat.client.queue.verdicts",
    "Verdict": "qanat.client.queue.verdicts",
    "ClientError": "qanat.client.errors",
    "ClosedError": "qanat.client.errors",
    "Consumer": "qanat.client.consumer.sync_consumer",
    "ConsumerGroupMetadata": "qanat.client.consumer.group_metadata",
    "ConsumerHealth": "qanat.client.consumer.group_metadata",
    "DeliveryError": "qanat.client.errors",
    "FencedError": "qanat.client.errors",
    "ForkedError": "qanat.client.errors",
    "IoLoop": "qanat.client.io_loop",
    "LockLostError": "qanat.client.errors",
    "MessageTooLargeError": "qanat.client.errors",
    "Metadata": "qanat.client.records",
    "OffsetStore": "qanat.client.consumer.offset_stores",
    "Producer": "qanat.client.producer.sync_producer",
    "Receipt": "qanat.client.records",
    "Record": "qanat.client.records",
    "SerializationError": "qanat.client.errors",
    "SignatureError": "qanat.client.errors",
    "SqliteOffsets": "qanat.client.consumer.offset_stores",
    "TopicPartition": "qanat.model.ids",
    "Transaction": "qanat.client.producer.async_producer",
    "TransactionError": "qanat.client.errors",
    "UnknownSettingError": "qanat.client.errors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
