"""CreatePartitions (37): add partitions to topics; never remove any.

v0   assignments are null where the broker chooses    v2   flexible    v3   quota errors (there are no quotas)

Deviation: internal topics cannot grow (Kafka adds partitions, and groups no longer find their offsets).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import DUPLICATE, INTERNAL, TIMED_OUT, attempt, duplicates_of, run_to_end
from qanat.api.request_context import RequestContext
from qanat.api.topics.authorization import DENIED, DENIED_MESSAGE
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import TopicPlan, decide_add_partitions
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: CreatePartitionsRequest, access: AccessCheck) -> Verdict:
    """ALTER on each topic."""
    request.topics, denied = access.split(request.topics, lambda topic: access.may_topic(Operation.ALTER, topic.name))
    return access.grant_without(denied, lambda response: response.results, _denied)


def _denied(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, DENIED, DENIED_MESSAGE)


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    duplicates = duplicates_of(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if topic.name not in duplicates]
    outcomes: dict[str, TopicPlan | Rejection] = {topic.name: TIMED_OUT for topic in topics}

    async def add_all() -> None:
        async for topic in context.yielder.over(topics):
            outcomes[topic.name] = await _add(topic, context, is_dry_run=request.validate_only)

    await run_to_end(context.broker, add_all(), request.timeout_ms)
    results = [_result(name, outcome) async for name, outcome in context.yielder.over(outcomes.items())]
    return CreatePartitionsResponse(results=[_result(name, DUPLICATE) for name in duplicates] + results)


async def _add(topic: CreatePartitionsTopic, context: RequestContext, *, is_dry_run: bool) -> TopicPlan | Rejection:
    assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]

    def decide(image: MetadataImage) -> TopicPlan | Rejection:
        plan = decide_add_partitions(image, topic.name, topic.count, assignments)
        return INTERNAL if isinstance(plan, TopicPlan) and plan.topic.is_internal else plan

    return await attempt(context.broker.metadata_changes.carry_out(decide, is_dry_run=is_dry_run))


def _result(name: str, outcome: TopicPlan | Rejection) -> CreatePartitionsTopicResult:
    if isinstance(outcome, Rejection):
        return CreatePartitionsTopicResult(name, outcome.code, outcome.message)
    return CreatePartitionsTopicResult(name)
