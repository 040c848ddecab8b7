"""CreatePartitions (37): more partitions for topics that exist; never fewer.

v0   assignments are null where the broker chooses    v2   flexible    v3   quota errors (there are no quotas)

Deviation: internal topics keep their partitions (Kafka adds some, and groups no longer find their offsets).
"""

from __future__ import annotations

from qanat.api.admin_tasks import DUPLICATE, INTERNAL, TIMED_OUT, attempt, carry_through, repeated
from qanat.api.request_context import RequestContext
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import TopicPlan, decide_add_partitions
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    duplicates = repeated(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if topic.name not in duplicates]
    outcomes: dict[str, TopicPlan | Rejection] = {topic.name: TIMED_OUT for topic in topics}

    async def add_all() -> None:
        async for topic in context.yielder.over(topics):
            outcomes[topic.name] = await _add(topic, context, is_dry_run=request.validate_only)

    await carry_through(context.broker, add_all(), request.timeout_ms)
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
