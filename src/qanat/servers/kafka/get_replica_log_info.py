"""GetReplicaLogInfo (93): what this broker's logs hold. The controller asks it before it elects (KIP-966).

v0   last leader epoch and end offset; ours, as tagged fields: directory, generation of the log, damaged ranges

KAFKA_STORAGE_ERROR for a log that cannot be opened, REPLICA_NOT_AVAILABLE for one that is not made yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from qanat.broker.replica_logs import PartitionRef, ReplicaLog, parse_topic_id
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.get_replica_log_info import (
    DamagedRange,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
)


async def handle(request: GetReplicaLogInfoRequest, context: Context) -> GetReplicaLogInfoResponse:
    broker = context.broker
    wanted = {
        topic.topic_id: [(parse_topic_id(topic.topic_id), number) for number in dict.fromkeys(topic.partitions)]
        for topic in request.topic_partitions
    }
    # Before the logs are looked at: a broker that registers anew meanwhile proves nothing for its new epoch.
    epoch = broker.broker_epoch
    described = await broker.replica_logs.describe([ref for refs in wanted.values() for ref in refs])
    return GetReplicaLogInfoResponse(
        broker_epoch=epoch,
        has_more_data=False,
        topic_partition_log_info_list=[
            TopicPartitionLogInfo(topic_id, [_row(ref, described) async for ref in context.breaths.over(refs)])
            for topic_id, refs in wanted.items()
        ],
        directory_id=broker.membership.registration.directory_id,
    )


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
    )
