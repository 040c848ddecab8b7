"""ShareFetch (78): acquire records as a member of a share group, and acknowledge earlier ones (KIP-932).

v1   as of Kafka 4.1    v2   renewed locks, and batches that end at the limit of records (KIP-1222, KIP-1206)

A member names its partitions once, in its own session; requests are numbered. Batches are sent whole, and the answer
says which of their records are acquired. Acknowledgements are applied first, and answered when durable.
The broker leaves out markers and, with `share.isolation.level=read_committed`, records of aborted transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.acknowledgements import (
    Outcomes,
    acknowledge,
    acknowledgements_of,
    end_broker_session,
    end_session,
    release_on_disconnect,
    wait_until_durable,
)
from qanat.broker.share.share_fetch import ShareFetch, ShareFound, ShareLimits
from qanat.broker.share.share_partition import LedSharePartition
from qanat.broker.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH, Member, ShareSession
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.share.state_records import ShareKey
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.share_fetch import (
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_RECORD_LIMIT = 1
"""The acquire mode that never acquires more records than requested."""


def authorize(request: ShareFetchRequest, access: AccessCheck) -> Verdict:
    """READ on the group and on each topic, those of the session included: rules may have changed since it began."""
    if not access.may_group(Operation.READ, request.group_id or ""):
        return access.deny(ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    request.topics, denied = access.split(
        request.topics, lambda topic: access.may_topic_or_id(Operation.READ, None, bytes(topic.topic_id))
    )
    revoked = _revoked(request, access)
    request.forgotten_topics_data += [
        ForgottenTopic(topic.topic_id, [row.partition_index for row in topic.partitions]) for topic in revoked
    ]
    denied += revoked
    if denied:
        request.max_wait_ms = 0
    return access.grant_without(denied, lambda response: response.responses, _denied, unless_error=True)


def recheck(request: ShareFetchRequest, response: ShareFetchResponse, access: AccessCheck) -> ShareFetchResponse:
    """Records that were acquired meanwhile are given out again when their lock ends."""
    if not access.may_group(Operation.READ, request.group_id or ""):
        return ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topic in response.responses:
        if not access.may_topic_or_id(Operation.READ, None, bytes(topic.topic_id)):
            topic.partitions = [
                PartitionData(row.partition_index, code, acknowledge_error_code=row.acknowledge_error_code, records=b"")
                for row in topic.partitions
            ]
    return response


def _revoked(request: ShareFetchRequest, access: AccessCheck) -> list[FetchTopic]:
    """Topics of the session that the caller may not read any more; a new session has none."""
    if request.share_session_epoch == FIRST_EPOCH:
        return []
    session = access.broker.share_partitions.sessions.find(Member(request.group_id or "", request.member_id or ""))
    revoked: dict[bytes, FetchTopic] = {}
    for topic_id, partition in () if session is None else session.partitions:
        if not access.may_topic_or_id(Operation.READ, None, topic_id):
            topic = revoked.setdefault(topic_id, FetchTopic(topic_id, []))
            topic.partitions.append(FetchPartition(partition))
    return list(revoked.values())


def _denied(topic: FetchTopic) -> ShareFetchableTopicResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [
        PartitionData(
            row.partition_index, code, records=b"", acknowledge_error_code=code if row.acknowledgement_batches else 0
        )
        for row in topic.partitions
    ]
    return ShareFetchableTopicResponse(topic.topic_id, rows)


def handle(request: ShareFetchRequest, context: RequestContext) -> object:
    parked = context.broker.park(_answer(request, context))
    context.caller.cancel_on_disconnect(parked)
    return parked


async def _answer(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    if not request.group_id or not request.member_id:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    member = Member(request.group_id, request.member_id)
    acknowledgements = acknowledgements_of(request)
    session = _session(request, member, bool(acknowledgements), context)
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=session)
    outcomes = await acknowledge(member, acknowledgements, context, may_renew=request.is_renew_ack)
    rows: dict[TopicIdPartition, ShareFound] = {}
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(member, context)
    elif not request.is_renew_ack:
        rows = await _fetch(request, session, context)
    if request.max_records > 0:
        end_broker_session(member, context)
    acknowledged = await wait_until_durable(outcomes, context)
    policy = context.broker.share_partitions.policies.of(member.group_id)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=policy.rules.lock_ms,
        responses=_responses(rows, acknowledged, is_full=request.share_session_epoch == FIRST_EPOCH),
    )


def _session(
    request: ShareFetchRequest, member: Member, has_acknowledgements: bool, context: RequestContext
) -> ShareSession | ErrorCode:
    """The session of a request, opened or updated."""
    sessions = context.broker.share_partitions.sessions
    named = [
        TopicIdPartition(bytes(topic.topic_id), row.partition_index)
        for topic in request.topics
        for row in topic.partitions
    ]
    if request.share_session_epoch == FIRST_EPOCH:
        if has_acknowledgements:
            return ErrorCode.INVALID_REQUEST
        session = sessions.begin(member, context.caller, named)
        if isinstance(session, ShareSession):
            release_on_disconnect(context)
        return session
    session = sessions.use(member, request.share_session_epoch)
    if isinstance(session, ShareSession):
        session.partitions.update(dict.fromkeys(named))
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                session.partitions.pop(TopicIdPartition(bytes(topic.topic_id), number), None)
    return session


async def _fetch(
    request: ShareFetchRequest, session: ShareSession, context: RequestContext
) -> dict[TopicIdPartition, ShareFound]:
    shares = context.broker.share_partitions
    group_id, member_id = session.member
    partitions = session.in_turn()
    wanted: list[LedSharePartition | ErrorCode] = []
    async for at in context.yielder.over(partitions):
        key = ShareKey(group_id, *at)
        wanted.append(shares.led(key) or await shares.lead(key))
    limits = ShareLimits(
        request.max_records,
        max(request.batch_size, 1),
        min(request.max_bytes, context.broker.settings.fetch_max_bytes),
        request.min_bytes,
        is_exact=request.share_acquire_mode == _RECORD_LIMIT,
    )
    fetch = ShareFetch(member_id, wanted, limits)
    await fetch.run(max(request.max_wait_ms, 0) / 1000)
    return dict(zip(partitions, fetch.found, strict=True))


def _responses(
    rows: dict[TopicIdPartition, ShareFound], acknowledged: Outcomes, *, is_full: bool
) -> list[ShareFetchableTopicResponse]:
    """Partitions with records, errors or acknowledgements; in a new session, all partitions."""
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    news = {at: found for at, found in rows.items() if is_full or found.error or found.acquired.ranges}
    for at in dict.fromkeys([*news, *acknowledged]):
        topic = topics.setdefault(at.topic_id, ShareFetchableTopicResponse(at.topic_id, []))
        topic.partitions.append(_partition(at, news.get(at, ShareFound()), acknowledged.get(at, ErrorCode.NONE)))
    return list(topics.values())


def _partition(at: TopicIdPartition, found: ShareFound, acknowledged: ErrorCode) -> PartitionData:
    return PartitionData(
        at.partition,
        found.error,
        acknowledge_error_code=acknowledged,
        records=found.acquired.views or b"",
        acquired_records=[AcquiredRecords(*one) for one in found.acquired.ranges],
    )
