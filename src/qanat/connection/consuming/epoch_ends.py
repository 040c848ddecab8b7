"""Where a leader epoch ends in a leader's log: OffsetForLeaderEpoch (KIP-320)."""

from __future__ import annotations

from typing import NamedTuple

from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from qanat.wire.kafka.registry import ApiKey

_CONSUMER = -1


class EpochEnd(NamedTuple):
    """The largest epoch up to the requested one, and where it ends; -1 where there is none."""

    error_code: int
    epoch: int
    end_offset: int


async def epoch_end(link: Link, at: TopicPartition, leader_epoch: int, read_epoch: int, deadline: Deadline) -> EpochEnd:
    """Ask the leader of `leader_epoch` where `read_epoch` ends."""
    partition = OffsetForLeaderPartition(at.partition, leader_epoch, read_epoch)
    request = OffsetForLeaderEpochRequest(_CONSUMER, [OffsetForLeaderTopic(at.topic, [partition])])
    response: OffsetForLeaderEpochResponse = await link.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, request, deadline)
    answer = response.topics[0].partitions[0]
    return EpochEnd(answer.error_code, answer.leader_epoch, answer.end_offset)
