"""Ready requests, which the many clients of a workload send again and again."""

from __future__ import annotations

import time

from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.fetch import write_request as write_fetch
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch

VERSION = 7
"""The version that librdkafka sends; `crowd.c` knows the form of its response."""
FETCH_VERSION = 11
"""The same; `readers.c` knows its form and that of its response."""
_FETCH_BYTES, _FETCH_WAIT_MS = 1024 * 1024, 500
"""librdkafka's defaults."""
_ALL = -1
_TIMEOUT_MS = 30_000


def produce_frame(topic: str, size: int, records: int) -> bytes:
    """One batch of records for partition 0, acknowledged by all replicas."""
    now_ms = int(time.time() * 1000)
    batch = encode_batch([Record(offset=n, timestamp=now_ms, key=None, value=b"x" * size) for n in range(records)])
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch))])
    request = ProduceRequest(None, _ALL, _TIMEOUT_MS, [data])
    return b"".join(frame_request(0, VERSION, 1, "bench", write_request(request, VERSION)))


def fetch_frame(topic: str) -> bytes:
    """The first fetch of a consumer of partition 0, without a session."""
    row = FetchPartition(0, fetch_offset=0, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=_FETCH_WAIT_MS, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic, partitions=[row])]
    )
    return b"".join(frame_request(1, FETCH_VERSION, 1, "bench", write_fetch(request, FETCH_VERSION)))
