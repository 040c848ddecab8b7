"""Guards of what members of share groups do with records: the group must be theirs to read, and so must the topics."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from qanat.api.authorization import GRANTED, AccessCheck, AuthorizationRule, Denied, Granted, Verdict, sifted
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages import share_acknowledge, share_fetch

_CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _may_read(access: AccessCheck, topic_id: bytes) -> bool:
    """An id that nobody has is let through: the handler does not know it either."""
    name = access.topic_name(None, topic_id)
    return name is None or access.may_topic(Operation.READ, name)


def authorize_share_fetch(request: share_fetch.ShareFetchRequest, access: AccessCheck) -> Verdict:
    """A topic that is denied never enters a session, so that what a session remembers need not be asked about again."""
    if not access.may_group(Operation.READ, request.group_id or ""):
        return Denied(share_fetch.ShareFetchResponse(error_code=_GROUP_DENIED))
    request.topics, denied = sifted(request.topics, lambda topic: _may_read(access, bytes(topic.topic_id)))
    if not denied:
        return GRANTED
    request.max_wait_ms = 0

    def complete(response: share_fetch.ShareFetchResponse) -> share_fetch.ShareFetchResponse:
        for topic in denied:
            rows = [
                share_fetch.PartitionData(row.partition_index, _DENIED, records=b"", acknowledge_error_code=_DENIED)
                for row in topic.partitions
            ]
            response.responses.append(share_fetch.ShareFetchableTopicResponse(topic.topic_id, rows))
        return response

    return Granted(complete)


def authorize_share_acknowledge(request: share_acknowledge.ShareAcknowledgeRequest, access: AccessCheck) -> Verdict:
    if not access.may_group(Operation.READ, request.group_id or ""):
        return Denied(share_acknowledge.ShareAcknowledgeResponse(error_code=_GROUP_DENIED))
    request.topics, denied = sifted(request.topics, lambda topic: _may_read(access, bytes(topic.topic_id)))

    def complete(response: share_acknowledge.ShareAcknowledgeResponse) -> share_acknowledge.ShareAcknowledgeResponse:
        for topic in denied:
            rows = [share_acknowledge.PartitionData(row.partition_index, _DENIED) for row in topic.partitions]
            response.responses.append(share_acknowledge.ShareAcknowledgeTopicResponse(topic.topic_id, rows))
        return response

    return Granted(complete) if denied else GRANTED


def authorize_state(messages: ModuleType, act: str) -> AuthorizationRule:
    """The guard of what brokers ask each other about the state of share groups; the four APIs are alike."""

    def guard(request: Any, access: AccessCheck) -> Verdict:
        if access.may_cluster(Operation.CLUSTER_ACTION):
            return GRANTED
        results = [
            getattr(messages, f"{act}StateResult")(
                topic.topic_id, [messages.PartitionResult(row.partition, _CLUSTER_DENIED) for row in topic.partitions]
            )
            for topic in request.topics
        ]
        return Denied(getattr(messages, f"{act}ShareGroupStateResponse")(results))

    return guard
