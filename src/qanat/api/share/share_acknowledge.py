"""ShareAcknowledge (79): what a member of a share group says of records that it holds (KIP-932).

v1   as of Kafka 4.1    v2   renewed locks (KIP-1222)

Accept, release or reject, record by record or in ranges; of one partition all is taken or nothing. Answered when it is
durable. The last request of a session gives back what the member still holds.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.api.share.acknowledgements import Said, acknowledge, end_exchange, end_session, settled
from qanat.broker.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH, Member
from qanat.groups.consumer.records import TopicIdPartition
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(request: ShareAcknowledgeRequest, context: RequestContext) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    if not request.group_id or not request.member_id:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == FIRST_EPOCH:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    member = Member(request.group_id, request.member_id)
    shares = context.broker.share_partitions
    session = shares.sessions.use(member, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    outcomes = await acknowledge(member, _said(request), context, may_renew=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(member, context)
    end_exchange(member, context)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for at, error in (await settled(outcomes)).items():
        topic = topics.setdefault(at.topic_id, ShareAcknowledgeTopicResponse(at.topic_id, []))
        topic.partitions.append(PartitionData(at.partition, error))
    lock_ms = shares.policies.of(member.group_id).rules.lock_ms
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))


def _said(request: ShareAcknowledgeRequest) -> Said:
    return {
        TopicIdPartition(bytes(topic.topic_id), row.partition_index): row.acknowledgement_batches
        for topic in request.topics
        for row in topic.partitions
        if row.acknowledgement_batches
    }
