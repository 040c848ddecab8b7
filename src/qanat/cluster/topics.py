"""Topics: create, delete, add partitions, decided.

Each decision reads the image and returns a `TopicPlan`, which is one commit for the store, or a `Rejection`. Nothing is
done here. The plan's compares hold as long as what it was decided on is unchanged; where the store refuses, catch up
and decide again.

The collision of `a.b` with `a_b` is judged by the image alone. That is enough, because one controller decides, one
request after another, with an image that contains its own earlier commits.

Settings are decided in `topic_configs`, names in `topic_names`, replicas in `placement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.host_defaults import default_configs, default_replicas
from qanat.cluster.image import MetadataImage
from qanat.cluster.placement import Assignment, check_assignment, check_rows, place
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Absent, Compare, Delete, DeletePrefix, Operation, Put
from qanat.cluster.topic_configs import checked
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.model.topic_names import metric_name, name_problem

DEFAULT = -1
"""The protocol's value for the default."""
PARTITIONS_MAX = 10_000
"""Partitions that one request may create, as in Kafka's controller."""


class TopicDefaults(Struct, frozen=True):
    """What a topic gets by default."""

    partitions: int = 4
    replication_factor: int | None = 1
    """None leaves it to the number of hosts (`host_defaults`)."""
    by_hosts: bool = False
    """Whether `min.insync.replicas` is left to the number of hosts as well."""


class CreateTopic(Struct, frozen=True):
    """A request for a topic. The id comes from the caller, who may draw random numbers; -1 is the default."""

    name: str
    topic_id: TopicId
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = {}
    configs: Mapping[str, str | None] = {}
    is_internal: bool = False


class TopicPlan(Struct, frozen=True):
    """One commit, and the topic after it (before it, for a deletion)."""

    topic: values.Topic
    overrides: Mapping[str, str]
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


def decide_create(
    image: MetadataImage,
    request: CreateTopic,
    check_configs: Callable[[Mapping[str, str]], object],
    defaults: TopicDefaults = TopicDefaults(),  # noqa: B008 - frozen
) -> TopicPlan | Rejection:
    """`check_configs` raises `InvalidSettingError`; so does `LogSettings.parse`."""
    if (rejection := _judge_name(image, request.name)) is not None:
        return rejection
    assignment = _assign(image, request, defaults)
    if isinstance(assignment, Rejection):
        return assignment
    wanted = {**(default_configs(image, assignment) if defaults.by_hosts else {}), **request.configs}
    overrides = checked(wanted, check_configs)
    if isinstance(overrides, Rejection):
        return overrides
    topic = values.Topic(
        name=request.name,
        topic_id=str(request.topic_id),
        partitions=assignment,
        is_internal=request.is_internal,
    )
    reference = keys.topic_id(request.topic_id)
    operations: list[Operation] = [
        Put(keys.topic(topic.name), values.encode(topic)),
        Put(reference, values.encode(values.TopicReference(name=topic.name))),
    ]
    if overrides:
        config = values.TopicConfig(overrides=overrides)
        operations.append(Put(keys.topic_config(topic.name), values.encode(config)))
    compares = (Absent(keys.topic(topic.name)), Absent(reference))
    return TopicPlan(topic, overrides, compares, tuple(operations))


def _judge_name(image: MetadataImage, name: str) -> Rejection | None:
    if (problem := name_problem(name)) is not None:
        return Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if keys.topic(name) in image.revisions:
        return Rejection(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    for other in image.names_by_metric.get(metric_name(name), {}):
        return Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    return None


def _assign(image: MetadataImage, request: CreateTopic, defaults: TopicDefaults) -> Assignment | Rejection:
    if request.assignments:
        return _assign_as_requested(image, request)
    if (rejection := _judge_numbers(request)) is not None:
        return rejection
    partitions = defaults.partitions if request.partitions == DEFAULT else request.partitions
    factor = request.replication_factor
    if factor == DEFAULT:
        told = defaults.replication_factor
        factor = default_replicas(image) if told is None else told
    brokers = sorted(image.brokers)
    return place(brokers, range(partitions), factor, _ring_start(request.topic_id, brokers), _racks(image))


def _assign_as_requested(image: MetadataImage, request: CreateTopic) -> Assignment | Rejection:
    for name, number in (("replication factor", request.replication_factor), ("numPartitions", request.partitions)):
        if number != DEFAULT:
            return Rejection(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    if len(request.assignments) > PARTITIONS_MAX:
        return _TOO_MANY
    return check_assignment(request.assignments, image.brokers)


def _judge_numbers(request: CreateTopic) -> Rejection | None:
    if request.replication_factor < DEFAULT or request.replication_factor == 0:
        return Rejection(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if request.partitions < DEFAULT or request.partitions == 0:
        return Rejection(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value; ask for 1 or more, or -1 for the default.",
        )
    return _TOO_MANY if request.partitions > PARTITIONS_MAX else None


_TOO_MANY = Rejection(
    ErrorCode.POLICY_VIOLATION,
    f"Excessively large number of partitions per request. At most {PARTITIONS_MAX} are created at once.",
)


def _racks(image: MetadataImage) -> dict[int, str | None]:
    return {node_id: broker.rack for node_id, broker in image.brokers.items()}


def _ring_start(topic_id: TopicId, brokers: Sequence[int]) -> int:
    return topic_id.value.int % len(brokers) if brokers else 0


def decide_delete(image: MetadataImage, topic: str | TopicId) -> TopicPlan | Rejection:
    """Delete a topic by name or by id, with its settings and the state of its partitions."""
    found = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
    if found is None:
        return _unknown(topic)
    operations = (
        Delete(keys.topic(found.name)),
        Delete(keys.topic_id(found.identity)),
        Delete(keys.topic_config(found.name)),
        DeletePrefix(keys.partitions_of(found.identity)),
        DeletePrefix(keys.push_refreshes_of(found.identity)),
    )
    compares = (image.unchanged(keys.topic(found.name)),)
    return TopicPlan(found, image.overrides(found.name), compares, operations)


def decide_add_partitions(
    image: MetadataImage, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> TopicPlan | Rejection:
    """Raise a topic's partitions to `count` in all; `assignments` are the replicas of the new ones only."""
    topic = image.topics.get(name)
    if topic is None:
        return _unknown(name)
    if (rejection := _judge_count(topic, count)) is not None:
        return rejection
    added = _assign_added(image, topic, count, assignments)
    if isinstance(added, Rejection):
        return added
    grown = values.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=topic.partitions + added,
        is_internal=topic.is_internal,
        grown=(*topic.grown, (len(topic.partitions), image.revision)),
    )
    compares = (image.unchanged(keys.topic(name)),)
    return TopicPlan(grown, image.overrides(name), compares, (Put(keys.topic(name), values.encode(grown)),))


def _judge_count(topic: values.Topic, count: int) -> Rejection | None:
    present = len(topic.partitions)
    if count == present:
        return Rejection(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        return Rejection(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase.",
        )
    return _TOO_MANY if count - present > PARTITIONS_MAX else None


def _assign_added(
    image: MetadataImage, topic: values.Topic, count: int, assignments: Sequence[Sequence[int]] | None
) -> Assignment | Rejection:
    factor = len(topic.partitions[0])
    added = range(len(topic.partitions), count)
    if assignments is None:
        brokers = sorted(image.brokers)
        return place(brokers, added, factor, _ring_start(topic.identity, brokers), _racks(image))
    if len(assignments) != len(added):
        return Rejection(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {len(added)} additional partition(s), but {len(assignments)} assignment(s) "
            "were specified.",
        )
    return check_rows(tuple(tuple(row) for row in assignments), factor, image.brokers)


def _unknown(topic: str | TopicId) -> Rejection:
    if isinstance(topic, TopicId):
        return Rejection(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {topic}.")
    return Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic named '{topic}'.")
