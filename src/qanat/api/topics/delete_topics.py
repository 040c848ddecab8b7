"""DeleteTopics (20): delete topics with their records, settings and partition states.

v1   (older versions are not served)    v3   TOPIC_DELETION_DISABLED is an error of its own    v4   flexible
v5   error messages; quota errors (there are no quotas)    v6   topics by id

Parked fetches of a deleted topic are answered at once. The answer comes when the records are gone from disk.
Deviation: internal topics are not deleted (Kafka deletes them, and groups lose their offsets).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat.api.admin_tasks import DUPLICATE, INTERNAL, TIMED_OUT, attempt, run_to_end
from qanat.api.request_context import RequestContext
from qanat.api.topics.authorization import DENIED, DENIED_MESSAGE
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import TopicPlan, decide_delete
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_DISABLED_FROM = 3
_TOPICS_FROM = 6
_NEITHER = Rejection(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
_BOTH = Rejection(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
_DUPLICATE_ID = Rejection(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
_SAME = Rejection(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")


@dataclass(slots=True)
class _Deletion:
    """A topic to delete, as the request named it, and the outcome."""

    name: str | None
    topic_id: bytes
    outcome: TopicPlan | Rejection = TIMED_OUT

    def result(self) -> DeletableTopicResult:
        if isinstance(self.outcome, Rejection):
            return DeletableTopicResult(self.name, self.topic_id, self.outcome.code, self.outcome.message)
        topic = self.outcome.topic
        return DeletableTopicResult(topic.name, topic.identity.value.bytes)


def authorize(request: DeleteTopicsRequest, access: AccessCheck) -> Verdict:
    """DELETE on each topic, or on the cluster.

    Who may describe a topic learns that it is not there, and the name of an id; others learn neither.
    """
    request.topic_names, denied_names = access.split(request.topic_names, lambda name: _may_ask(name, access))
    request.topics, denied = access.split(
        request.topics, lambda topic: _may_ask(access.topic_name(topic.name, topic.topic_id), access)
    )
    everything = [DeleteTopicState(name) for name in denied_names] + denied
    return access.grant_without(everything, lambda response: response.responses, lambda topic: _denied(topic, access))


def _may_ask(name: str | None, access: AccessCheck) -> bool:
    """Whether the handler may answer for a topic: it does not know it, or the caller may delete it."""
    if name is None or (access.may_describe_topic(name) and name not in access.broker.metadata.image.topics):
        return True
    return access.may_on_cluster_or_topic(Operation.DELETE, name)


def _denied(topic: DeleteTopicState, access: AccessCheck) -> DeletableTopicResult:
    name = access.topic_name(topic.name, topic.topic_id)
    is_shown = topic.name is not None or (name is not None and access.may_describe_topic(name))
    return DeletableTopicResult(name if is_shown else None, topic.topic_id, DENIED, DENIED_MESSAGE)


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if context.version >= _TOPICS_FROM:
        named = request.topics
    else:
        named = [DeleteTopicState(name) for name in request.topic_names]
    if not context.broker.settings.delete_topic_enable:
        return _disabled(named, context.version)
    deletions = await _judge(named, context)

    async def delete_all() -> None:
        async for deletion in context.yielder.over(deletions):
            if deletion.outcome is TIMED_OUT:
                deletion.outcome = await _delete(deletion, context)

    await run_to_end(context.broker, delete_all(), request.timeout_ms)
    return DeleteTopicsResponse(responses=[deletion.result() async for deletion in context.yielder.over(deletions)])


def _disabled(named: list[DeleteTopicState], version: int) -> DeleteTopicsResponse:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_FROM else ErrorCode.INVALID_REQUEST
    why = Rejection(code, "Topic deletion is disabled.")
    return DeleteTopicsResponse(responses=[_Deletion(one.name, one.topic_id, why).result() for one in named])


async def _judge(named: list[DeleteTopicState], context: RequestContext) -> list[_Deletion]:
    """One entry per topic; contradictory names are refused here."""
    image, yielder = context.broker.metadata.image, context.yielder
    deletions: list[_Deletion] = []
    counts: dict[tuple[str | None, bytes], int] = {}
    async for one in yielder.over(named):
        if (one.name is None) == (one.topic_id == ZERO_UUID):
            deletions.append(_Deletion(one.name, one.topic_id, _NEITHER if one.name is None else _BOTH))
        else:
            counts[one.name, one.topic_id] = counts.get((one.name, one.topic_id), 0) + 1
    twice_meant: dict[bytes, None] = {}
    async for name, _ in yielder.over(counts):
        if (topic_id := _id_of(name, image)) and (None, topic_id) in counts:
            twice_meant[topic_id] = None
    async for (name, topic_id), count in yielder.over(counts.items()):
        if topic_id in twice_meant:
            continue  # Answered once, under its name.
        if _id_of(name, image) in twice_meant:
            deletions.append(_Deletion(name, _id_of(name, image), _SAME))
        elif count > 1:
            deletions.append(_Deletion(name, topic_id, _DUPLICATE_ID if name is None else DUPLICATE))
        else:
            deletions.append(_Deletion(name, topic_id))
    return deletions


def _id_of(name: str | None, image: MetadataImage) -> bytes:
    """The id of a topic by name; empty where there is none."""
    topic = image.topics.get(name) if name is not None else None
    return topic.identity.value.bytes if topic is not None else b""


async def _delete(deletion: _Deletion, context: RequestContext) -> TopicPlan | Rejection:
    which = deletion.name if deletion.name is not None else TopicId.of(deletion.topic_id)

    def decide(image: MetadataImage) -> TopicPlan | Rejection:
        plan = decide_delete(image, which)
        return INTERNAL if isinstance(plan, TopicPlan) and plan.topic.is_internal else plan

    return await attempt(context.broker.metadata_changes.carry_out(decide))
