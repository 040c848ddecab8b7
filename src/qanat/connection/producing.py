"""Producing: one batch per partition to the leader, acknowledged as requested."""

from __future__ import annotations

from collections.abc import Mapping

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check, refused
from qanat.connection.offsets import by_leader
from qanat.model.error_codes import ErrorCode
from qanat.wire.batch_header import Buffer
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey

NO_ACKNOWLEDGEMENT = 0
_ATTEMPT_MS = 10_000
"""How long one leader may take: it may have been replaced without knowing, and then no follower ever catches up."""
_PARTITIONS_ARE_ADDED_FIRST = 11
"""Later versions of Produce add partitions to a transaction by themselves (KIP-890), and all its requests must know."""


async def produce(
    cluster: Cluster,
    topic: str,
    batches: Mapping[int, Buffer],
    acks: int,
    deadline: Deadline,
    transactional_id: str | None = None,
) -> dict[int, int]:
    """Append one batch to each partition; returns their base offsets, none with acks=0.

    A batch whose acknowledgement was lost may be appended twice: an idempotent `Producer` avoids that.
    """
    left = dict(batches)
    offsets: dict[int, int] = {}

    async def attempt() -> None:
        view = await cluster.known_topic(topic, deadline, may_create=True)
        for leader, partitions in by_leader(view, left).items():
            link = await cluster.node_link(leader, deadline)
            request = _request(topic, {partition: left[partition] for partition in partitions}, acks, deadline)
            request.transactional_id = transactional_id
            if acks == NO_ACKNOWLEDGEMENT:
                await link.send_one_way(ApiKey.PRODUCE, request, deadline)
                for partition in partitions:
                    del left[partition]
                continue
            response = await link.call(ApiKey.PRODUCE, request, deadline, at_most=_PARTITIONS_ARE_ADDED_FIRST)
            _take(response, topic, left, offsets)

    await cluster.persist(attempt, deadline)
    return offsets


def _take(response: ProduceResponse, topic: str, left: dict[int, Buffer], offsets: dict[int, int]) -> None:
    """Record what was appended; then raise for what was not."""
    answers = response.responses[0].partition_responses
    for answer in answers:
        if answer.error_code == 0:
            left.pop(answer.index, None)
            offsets[answer.index] = answer.base_offset
    for answer in answers:
        what = f"topic {topic} partition {answer.index} did not take the records"
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # Another broker has named it as the leader: a new topic, which it does not know yet.
            raise refused(what, ErrorCode.LEADER_NOT_AVAILABLE, "the leader does not know the topic yet")
        check(what, answer.error_code, answer.error_message)


def _request(topic: str, batches: Mapping[int, Buffer], acks: int, deadline: Deadline) -> ProduceRequest:
    data = [PartitionProduceData(partition, memoryview(batch)) for partition, batch in batches.items()]
    return ProduceRequest(
        acks=acks,
        timeout_ms=max(1, min(deadline.left_ms, _ATTEMPT_MS)),
        topic_data=[TopicProduceData(topic, partition_data=data)],
    )
