"""ShareAcknowledge (79): a member of a share group acknowledges records that it acquired (KIP-932).

v1   as of Kafka 4.1    v2   renewed locks (KIP-1222)

Accept, release or reject, record by record or in ranges; the acknowledgements of one partition are applied all or none.
Answered when durable. The last request of a session releases the records that the member still holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.acknowledgements import (
    acknowledge,
    acknowledgements_of,
    end_broker_session,
    end_session,
    wait_until_durable,
)
from qanat.broker.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH, Member
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.share_acknowledge import (
    AcknowledgeTopic,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: ShareAcknowledgeRequest, access: AccessCheck) -> Verdict:
    """READ on the group and on each topic."""
    if not access.may_group(Operation.READ, request.group_id or ""):
        return access.deny(ShareAcknowledgeResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    request.topics, denied = access.split(
        request.topics, lambda topic: access.may_topic_or_id(Operation.READ, None, bytes(topic.topic_id))
    )
    return access.grant_without(denied, lambda response: response.responses, _denied, unless_error=True)


def _denied(topic: AcknowledgeTopic) -> ShareAcknowledgeTopicResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ShareAcknowledgeTopicResponse(
        topic.topic_id, [PartitionData(row.partition_index, code) for row in topic.partitions]
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
    outcomes = await acknowledge(member, acknowledgements_of(request), context, may_renew=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(member, context)
    end_broker_session(member, context)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for at, error in (await wait_until_durable(outcomes, context)).items():
        topic = topics.setdefault(at.topic_id, ShareAcknowledgeTopicResponse(at.topic_id, []))
        topic.partitions.append(PartitionData(at.partition, error))
    lock_ms = shares.policies.of(member.group_id).rules.lock_ms
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))
