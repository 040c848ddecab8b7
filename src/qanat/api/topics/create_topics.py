"""CreateTopics (19): create topics, each with its partitions, replicas and settings.

v2   (older versions are not served)    v4   -1 stands for the default number of partitions or replicas
v5   flexible; partitions, replicas and settings in the answer    v6   quota errors (there are no quotas)
v7   topic ids in the answer

A topic that a request names twice is refused. The answer comes when the topic can be used, where Kafka's comes when it
is decided. A replication factor above the number of brokers is refused with advice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import (
    CLUSTER_METADATA,
    DUPLICATE,
    TIMED_OUT,
    attempt,
    duplicates_of,
    run_to_end,
)
from qanat.api.request_context import RequestContext
from qanat.api.topics.authorization import DENIED, DENIED_MESSAGE, may_create
from qanat.broker.settings.effective_settings import Layers, layers_of, topic_entries
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import DEFAULT, PARTITIONS_MAX, CreateTopic, TopicPlan
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import INTERNAL_TOPICS, PIPELINES_TOPIC
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_TOO_MANY = Rejection(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
_METADATA = Rejection(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")


def authorize(request: CreateTopicsRequest, access: AccessCheck) -> Verdict:
    """CREATE on the cluster or on each topic; the settings of a new topic need DESCRIBE_CONFIGS on it."""
    request.topics, denied = access.split(request.topics, lambda topic: may_create(topic.name, access))

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if not topic.error_code and not access.may_topic(Operation.DESCRIBE_CONFIGS, topic.name):
                topic.topic_config_error_code = DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        response.topics += [
            CreatableTopicResult(name, error_code=DENIED, error_message=DENIED_MESSAGE)
            for name in dict.fromkeys(topic.name for topic in denied)
        ]
        return response

    return access.grant(complete)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    duplicates = duplicates_of(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if topic.name not in duplicates]
    outcomes: dict[str, TopicPlan | Rejection] = {topic.name: TIMED_OUT for topic in topics}

    async def create_all() -> None:
        async for topic in context.yielder.over(topics):
            outcomes[topic.name] = await _create(topic, context, is_dry_run=request.validate_only)

    if _partitions(topics, context) > PARTITIONS_MAX:
        outcomes = {topic.name: _TOO_MANY for topic in topics}
    else:
        await run_to_end(context.broker, create_all(), request.timeout_ms)
    for name in duplicates:
        outcomes[name] = DUPLICATE
    layers = layers_of(context.broker.current_settings)
    rows = context.yielder.over(outcomes.items())
    return CreateTopicsResponse(topics=[_result(name, outcome, layers) async for name, outcome in rows])


def _partitions(topics: list[CreatableTopic], context: RequestContext) -> int:
    """All requested partitions."""
    default = context.broker.settings.num_partitions
    counts = [len(topic.assignments) or topic.num_partitions for topic in topics]
    return sum(default if count == DEFAULT else max(count, 0) for count in counts)


async def _create(topic: CreatableTopic, context: RequestContext, *, is_dry_run: bool) -> TopicPlan | Rejection:
    if topic.name == CLUSTER_METADATA:
        return _METADATA
    assignments: dict[int, list[int]] = {}
    for row in topic.assignments:
        if row.partition_index in assignments:
            return Rejection(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {row.partition_index}",
            )
        assignments[row.partition_index] = row.broker_ids
    wish = CreateTopic(
        topic.name,
        context.broker.metadata_changes.new_topic_id(),
        topic.num_partitions,
        topic.replication_factor,
        assignments,
        {config.name: config.value for config in topic.configs},
        is_internal=topic.name in (*INTERNAL_TOPICS, PIPELINES_TOPIC),
    )
    return await attempt(context.broker.metadata_changes.create_topic(wish, is_dry_run=is_dry_run))


def _result(name: str, outcome: TopicPlan | Rejection, layers: Layers) -> CreatableTopicResult:
    if isinstance(outcome, Rejection):
        return CreatableTopicResult(name, error_code=outcome.code, error_message=outcome.message)
    topic = outcome.topic
    return CreatableTopicResult(
        name,
        topic.identity.value.bytes,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0]),
        configs=[
            CreatableTopicConfigs(entry.name, entry.value, config_source=entry.source)
            for entry in topic_entries(outcome.overrides, layers)
        ],
    )
