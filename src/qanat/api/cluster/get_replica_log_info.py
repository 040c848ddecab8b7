"""GetReplicaLogInfo (93): what this broker's logs hold. The controller requests it before it elects (KIP-966).

v0   last leader epoch and end offset; ours, as tagged fields: directory, generation of the log, damaged ranges

`faulty_only`, also ours, requests the damaged and offline replicas of this broker, whatever is named. The controller
then adds the elections that wait, for which brokers, and for how long at most (-1: until they are back, or an operator
decides).

KAFKA_STORAGE_ERROR for a log that cannot be opened, REPLICA_NOT_AVAILABLE for one that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.broker.replicas.replica_logs import PartitionRef, ReplicaLog, parse_topic_id
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.get_replica_log_info import (
    DamagedRange,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
    WaitingElection,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

Wanted = dict[bytes, list[PartitionRef]]
"""Partitions by the ids of their topics."""


def authorize(request: GetReplicaLogInfoRequest, access: AccessCheck) -> Verdict:
    """CLUSTER_ACTION on the cluster, for brokers; or DESCRIBE, for operators, as with log directories."""
    if access.may_cluster(Operation.CLUSTER_ACTION) or access.may_cluster(Operation.DESCRIBE):
        return access.grant()
    return access.deny(refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


async def handle(request: GetReplicaLogInfoRequest, context: RequestContext) -> GetReplicaLogInfoResponse:
    broker = context.broker
    wanted = _faulty(broker) if request.faulty_only else _named(request)
    # Before the logs are read: a broker that registers again meanwhile proves nothing for its new epoch.
    epoch = broker.membership.epoch_in_requests
    described = await broker.replica_logs.describe([ref for refs in wanted.values() for ref in refs])
    return GetReplicaLogInfoResponse(
        broker_epoch=epoch,
        has_more_data=False,
        topic_partition_log_info_list=[
            TopicPartitionLogInfo(topic_id, [_row(ref, described) async for ref in context.yielder.over(refs)])
            for topic_id, refs in wanted.items()
        ],
        directory_id=broker.membership.registration.directory_id,
        waiting=_waiting(broker) if request.faulty_only and broker.controller_loop.is_controller else [],
    )


def _named(request: GetReplicaLogInfoRequest) -> Wanted:
    return {
        topic.topic_id: [(parse_topic_id(topic.topic_id), number) for number in dict.fromkeys(topic.partitions)]
        for topic in request.topic_partitions
    }


def _faulty(broker: Broker) -> Wanted:
    topics, wanted = broker.metadata.image.topics, Wanted()
    for at in broker.replica_faults.faulty():
        if (topic := topics.get(at.topic)) is not None:
            wanted.setdefault(topic.identity.value.bytes, []).append((topic.topic_id, at.partition))
    return wanted


def _waiting(broker: Broker) -> list[WaitingElection]:
    return [
        WaitingElection(
            one.topic.identity.value.bytes,
            one.number,
            list(one.wait.unproven),
            list(one.wait.gone),
            -1 if one.left_ms is None else one.left_ms,
        )
        for one in broker.controller_loop.waiting
    ]


def _row(ref: PartitionRef, described: Mapping[PartitionRef, ReplicaLog]) -> PartitionLogInfo:
    log = described.get(ref)
    if log is None:
        return PartitionLogInfo(ref[1], -1, -1, -1, ErrorCode.REPLICA_NOT_AVAILABLE)
    return PartitionLogInfo(
        partition=ref[1],
        last_written_leader_epoch=log.last_epoch,
        current_leader_epoch=log.leader_epoch,
        log_end_offset=log.end_offset,
        error_code=ErrorCode.KAFKA_STORAGE_ERROR if log.is_offline else ErrorCode.NONE,
        error_message=log.reason or None,
        log_generation=log.generation,
        damage=[DamagedRange(first, following) for first, following in log.damage],
        is_compacted=log.is_compacted,
    )


def refused(request: GetReplicaLogInfoRequest, error: int) -> GetReplicaLogInfoResponse:
    """The response with this error in every row."""
    rows = [
        TopicPartitionLogInfo(
            topic.topic_id, [PartitionLogInfo(number, -1, -1, -1, error) for number in topic.partitions]
        )
        for topic in request.topic_partitions
    ]
    return GetReplicaLogInfoResponse(broker_epoch=-1, topic_partition_log_info_list=rows)
