"""Options of Spark's connector and of Java's clients that have no meaning here. Pure.

Rule: options that only tune the other client are accepted without effect, so that a switch is easy; options that would
      change a result are refused, with the alternative.
"""

from __future__ import annotations

from collections.abc import Mapping

_OF_THE_CONNECTOR = (
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "groupidprefix",
)
_OF_EITHER_CLIENT = (
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "metadata.max.age.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)
_OF_THE_CONSUMER = (
    "allow.auto.create.topics",
    "check.crcs",
    "exclude.internal.topics",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_OF_THE_PRODUCER = (
    "buffer.memory",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.idle.ms",
    "retries",
)

IGNORED = frozenset(
    (*_OF_THE_CONNECTOR, *(f"kafka.{name}" for name in (*_OF_EITHER_CLIENT, *_OF_THE_CONSUMER, *_OF_THE_PRODUCER)))
)
"""Accepted without effect; in lower case, as options are compared."""

_BYTES = "keys and values are read and written as bytes; cast them, or use valueFormat"
REFUSED: Mapping[str, str] = {
    "kafka.auto.offset.reset": "startingOffsets says where a query begins",
    "kafka.enable.auto.commit": "the checkpoint stores a query's progress; with kafka.group.id a group shows it",
    "kafka.interceptor.classes": "there is no Java to run them; change rows in the query",
    "kafka.key.deserializer": _BYTES,
    "kafka.value.deserializer": _BYTES,
    "kafka.key.serializer": _BYTES,
    "kafka.value.serializer": _BYTES,
    "kafka.partitioner.class": "there is no Java to run it; the column partition says where a row goes",
}
"""Refused, each with the alternative; Spark's connector refuses most of them as well."""
