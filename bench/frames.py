"""A ready Produce request, which the many clients of a workload send again and again."""

from __future__ import annotations

import time

from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch

VERSION = 7
"""The version that librdkafka sends; `crowd.c` knows the form of its response."""
_ALL = -1
_TIMEOUT_MS = 30_000


def produce_frame(topic: str, size: int, records: int) -> bytes:
    """One batch of records for partition 0, acknowledged by all replicas."""
    now_ms = int(time.time() * 1000)
    batch = encode_batch([Record(offset=n, timestamp=now_ms, key=None, value=b"x" * size) for n in range(records)])
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch))])
    request = ProduceRequest(None, _ALL, _TIMEOUT_MS, [data])
    return b"".join(frame_request(0, VERSION, 1, "bench", write_request(request, VERSION)))
