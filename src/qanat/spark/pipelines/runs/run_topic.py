"""The topic `__qanat_pipelines`: created on first use, read from its start, written by runs and by `stop`.

It has one partition, so that its records have an order. Commands read it uncommitted: each record was true when it was
written, and a run that is killed inside of a transaction blocks no reader. Runs read what is committed: a transaction
of the run before may still end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, check
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.offsets import EARLIEST, LATEST, list_offsets
from qanat.model.error_codes import ErrorCode
from qanat.model.pipeline_runs import Entry, PipelineRuns
from qanat.model.topic_names import PIPELINES_TOPIC as TOPIC
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

_REPLICAS = 3
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.2",
}
_COMMITTED = FetchLimits(max_wait_ms=200, partition_bytes=4 * 1024 * 1024, is_committed_only=True)
_AT_ONCE = FetchLimits(max_wait_ms=0, partition_bytes=4 * 1024 * 1024)


async def ensure_topic(cluster: Cluster, deadline: Deadline) -> None:
    """Create the topic where it is missing."""
    found = await cluster.metadata([TOPIC], deadline)
    if found.topics[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return
    configs = [CreatableTopicConfig(name, value) for name, value in _CONFIGS.items()]
    topic = CreatableTopic(TOPIC, 1, min(_REPLICAS, len(found.brokers)), configs=configs)
    request = CreateTopicsRequest([topic], timeout_ms=deadline.left_ms)
    response: CreateTopicsResponse = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, deadline)
    if (result := response.topics[0]).error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
        check(f"cannot create topic {TOPIC}", result.error_code, result.error_message)
    await cluster.created_topic(TOPIC, deadline)


class RunReader:
    """The content of the topic, and how far it was read."""

    def __init__(self, cluster: Cluster, *, is_committed_only: bool = False) -> None:
        self._cluster = cluster
        self._limits = _COMMITTED if is_committed_only else _AT_ONCE
        self._position: int | None = None
        self.runs = PipelineRuns()

    async def read_all(self, deadline: Deadline) -> PipelineRuns:
        """The content up to the end; nothing where the topic does not exist."""
        try:
            end = (await list_offsets(self._cluster, TOPIC, {0: LATEST}, deadline))[0].offset
            while await self._begin(deadline) < end:
                if deadline.is_over:
                    raise OutOfTimeError(f"{TOPIC} could not be read up to offset {end} in time")
                await self.read_more(deadline)
        except RefusedError as fault:
            if fault.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        return self.runs

    async def read_more(self, deadline: Deadline, wait_ms: int | None = None) -> None:
        """One fetch from the position on, which may wait for records."""
        limits = self._limits if wait_ms is None else replace(self._limits, max_wait_ms=wait_ms)
        position = await self._begin(deadline)

        async def attempt() -> None:
            view = await self._cluster.known_topic(TOPIC, deadline)
            link = await self._cluster.node_link(view.leaders[0], deadline)
            (answer,) = await fetch(link, TOPIC, {0: position}, limits, deadline)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._position, self.runs = None, PipelineRuns()  # The topic was emptied, or created again.
                return
            check(f"fetch of {TOPIC}", answer.error_code)
            for record in answer.records:
                self.runs.apply(record.key, record.value)
            self._position = answer.next_offset

        await self._cluster.persist(attempt, deadline)

    async def _begin(self, deadline: Deadline) -> int:
        if self._position is None:
            self._position = (await list_offsets(self._cluster, TOPIC, {0: EARLIEST}, deadline))[0].offset
        return self._position


async def read_runs(cluster: Cluster) -> PipelineRuns:
    """The content of the topic now."""
    return await RunReader(cluster).read_all(cluster.deadline())


async def append(cluster: Cluster, entries: Sequence[Entry], deadline: Deadline) -> None:
    """Append records once, outside of any run."""
    producer = await BatchProducer.idempotent(cluster, deadline)
    await producer.send(TOPIC, {0: encoded(entries)}, deadline)


def encoded(entries: Sequence[Entry]) -> bytearray:
    """A batch of these records."""
    now = now_ms()
    return encode_batch([Record(offset, now, key, value) for offset, (key, value) in enumerate(entries)])


def now_ms() -> int:
    return time.time_ns() // 1_000_000
