"""Qanat's Python client, for any broker that speaks Kafka's protocol.

- `errors`    what goes wrong, each with what to do
- `settings`  settings by Python's names or Kafka's, of every client
- `io_loop`   where the client's network traffic runs: a thread, or the caller's event loop
- `trace_headers`  W3C Trace Context, by OpenTelemetry
- `records`   records, receipts, and where a record was written
- `producer`  `Producer` and `AsyncProducer`
- `consumer`  `Consumer` and `AsyncConsumer`
- `queue`     `QueueConsumer` and `AsyncQueueConsumer`
- `push`      `PushConsumer`, `PushProducer` and their asynchronous twins: Qanat's push protocol
- `app`       `App`: handlers with order, retries, dead letters, exactly once; `qanat run`
- `serializers`  bytes, str, JSON, msgspec, pydantic, Avro, Protobuf
- `java_names`  `MessageProducer`, `MessageConsumer`: Java's examples line by line

It stands on `connection` and imports nothing of a broker. Names are imported on first use, so that
`import qanat.client` costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.client.app.app import App, AppError
    from qanat.client.app.context import Context, HandlerCancelledError
    from qanat.client.app.handler_processes import HandlerProcessError
    from qanat.client.app.handlers import ErrorHandler, HandlerFailedError, Reaction
    from qanat.client.app.health import Health
    from qanat.client.app.retry import Retry, RetryPolicy
    from qanat.client.app.sending import Send
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
    from qanat.client.java_names import (
        ConsumerRecord,
        ConsumerRecords,
        MessageConsumer,
        MessageProducer,
        ProducerRecord,
    )
    from qanat.client.producer.async_producer import AsyncProducer, Transaction
    from qanat.client.producer.sync_producer import Producer
    from qanat.client.push.consumers import AsyncPushConsumer, PushConsumer
    from qanat.client.push.producers import AsyncPushProducer, PushProducer
    from qanat.client.queue.consumers import AsyncQueueConsumer, QueueConsumer, UndecodableRecordError
    from qanat.client.queue.verdicts import FencingToken, Verdict
    from qanat.client.records import Metadata, Receipt, Record
    from qanat.connection.push.receiving import ResumePoint
    from qanat.connection.push.refreshing import Refresh, RefreshRange
    from qanat.model.ids import TopicPartition
    from qanat.telemetry.producer_metrics import ProducerMetrics

__all__ = [
    "App",
    "AppError",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncPushConsumer",
    "AsyncPushProducer",
    "AsyncQueueConsumer",
    "CalledOffsets",
    "ClientError",
    "ClosedError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerRecord",
    "ConsumerRecords",
    "Context",
    "DeliveryError",
    "ErrorHandler",
    "FencedError",
    "FencingToken",
    "ForkedError",
    "HandlerCancelledError",
    "HandlerFailedError",
    "HandlerProcessError",
    "Health",
    "IoLoop",
    "LockLostError",
    "MessageConsumer",
    "MessageProducer",
    "MessageTooLargeError",
    "Metadata",
    "OffsetStore",
    "Producer",
    "ProducerMetrics",
    "ProducerRecord",
    "PushConsumer",
    "PushProducer",
    "QueueConsumer",
    "Reaction",
    "Receipt",
    "Record",
    "Refresh",
    "RefreshRange",
    "ResumePoint",
    "Retry",
    "RetryPolicy",
    "Send",
    "SerializationError",
    "SignatureError",
    "SqliteOffsets",
    "TopicPartition",
    "Transaction",
    "TransactionError",
    "UndecodableRecordError",
    "UnknownSettingError",
    "Verdict",
]

_HOMES = {
    "App": "qanat.client.app.app",
    "AppError": "qanat.client.app.app",
    "AsyncConsumer": "qanat.client.consumer.async_consumer",
    "AsyncProducer": "qanat.client.producer.async_producer",
    "AsyncPushConsumer": "qanat.client.push.consumers",
    "AsyncPushProducer": "qanat.client.push.producers",
    "AsyncQueueConsumer": "qanat.client.queue.consumers",
    "CalledOffsets": "qanat.client.consumer.offset_stores",
    "ClientError": "qanat.client.errors",
    "ClosedError": "qanat.client.errors",
    "Consumer": "qanat.client.consumer.sync_consumer",
    "ConsumerGroupMetadata": "qanat.client.consumer.group_metadata",
    "ConsumerHealth": "qanat.client.consumer.group_metadata",
    "ConsumerRecord": "qanat.client.java_names",
    "ConsumerRecords": "qanat.client.java_names",
    "Context": "qanat.client.app.context",
    "DeliveryError": "qanat.client.errors",
    "ErrorHandler": "qanat.client.app.handlers",
    "FencedError": "qanat.client.errors",
    "FencingToken": "qanat.client.queue.verdicts",
    "ForkedError": "qanat.client.errors",
    "HandlerCancelledError": "qanat.client.app.context",
    "HandlerFailedError": "qanat.client.app.handlers",
    "HandlerProcessError": "qanat.client.app.handler_processes",
    "Health": "qanat.client.app.health",
    "IoLoop": "qanat.client.io_loop",
    "LockLostError": "qanat.client.errors",
    "MessageConsumer": "qanat.client.java_names",
    "MessageProducer": "qanat.client.java_names",
    "MessageTooLargeError": "qanat.client.errors",
    "Metadata": "qanat.client.records",
    "OffsetStore": "qanat.client.consumer.offset_stores",
    "Producer": "qanat.client.producer.sync_producer",
    "ProducerMetrics": "qanat.telemetry.producer_metrics",
    "ProducerRecord": "qanat.client.java_names",
    "PushConsumer": "qanat.client.push.consumers",
    "PushProducer": "qanat.client.push.producers",
    "QueueConsumer": "qanat.client.queue.consumers",
    "Reaction": "qanat.client.app.handlers",
    "Receipt": "qanat.client.records",
    "Record": "qanat.client.records",
    "Refresh": "qanat.connection.push.refreshing",
    "RefreshRange": "qanat.connection.push.refreshing",
    "ResumePoint": "qanat.connection.push.receiving",
    "Retry": "qanat.client.app.retry",
    "RetryPolicy": "qanat.client.app.retry",
    "Send": "qanat.client.app.sending",
    "SerializationError": "qanat.client.errors",
    "SignatureError": "qanat.client.errors",
    "SqliteOffsets": "qanat.client.consumer.offset_stores",
    "TopicPartition": "qanat.model.ids",
    "Transaction": "qanat.client.producer.async_producer",
    "TransactionError": "qanat.client.errors",
    "UndecodableRecordError": "qanat.client.queue.consumers",
    "UnknownSettingError": "qanat.client.errors",
    "Verdict": "qanat.client.queue.verdicts",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
