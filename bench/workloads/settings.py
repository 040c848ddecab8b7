"""Settings of clients and topics, by librdkafka's and Kafka's names; all others have their defaults."""

from __future__ import annotations

NEVER = str(2**63 - 1)
_SEGMENTS = {"segment.bytes": str(2**30)}
"""Kafka's default; Qanat's is an eighth. A segment that is full is written to disk, however topics are flushed."""
UNFLUSHED = {"flush.messages": NEVER, **_SEGMENTS}
"""Kafka's default: flushing is left to the kernel."""
FLUSHED = {"flush.messages": "1", **_SEGMENTS}
"""Qanat's default: an acknowledged record is on disk."""
KIB = 1024

_WIDE = {"queue.buffering.max.messages": "1000000", "queue.buffering.max.kbytes": "1048576"}
BATCHED = {
    **_WIDE,
    "acks": "all",
    "linger.ms": "5",
    "batch.num.messages": "10000",
    "delivery.report.only.error": "true",
}
ONE_BY_ONE = {
    **_WIDE,
    "acks": "all",
    "linger.ms": "0",
    "batch.num.messages": "1",
    "max.in.flight": "1000",
    "delivery.report.only.error": "true",
}
AT_ONCE = {"acks": "all", "linger.ms": "0"}
PACED = {"producer.acks": "all", "producer.linger.ms": "0"}
READING_ON = {"queued.min.messages": "2000000", "queued.max.messages.kbytes": "1048576"}
"""Room for records that a broker sends faster than the program takes them. Where librdkafka's default (100,000
messages) is full, the client fetches nothing for up to a second: then the faster broker has the slower rounds."""
METRICS = {"driver.payload": "metrics"}
"""Lines as a collector of metrics writes them, made from a counter: they compress as real messages do."""
