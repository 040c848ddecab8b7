"""Config resources: their types, and the checks that the three config APIs share.

Topics, brokers, groups and subscriptions to client metrics have configurations; broker loggers have none, and are
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Generic, Protocol, TypeVar

from qanat.api.admin_tasks import attempt, run_to_end
from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.broker.settings.dynamic_settings import DYNAMIC
from qanat.broker.settings.effective_settings import broker_entries
from qanat.cluster.client_metrics import parse_subscription
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_configs import CheckConfigs, ConfigPlan
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import name_problem


class ConfigResource(Protocol):
    """A resource in a request: its type and name."""

    resource_type: int
    resource_name: str


Resource = TypeVar("Resource", bound=ConfigResource)
Row = TypeVar("Row")
Wanted = TypeVar("Wanted")


class ResourceType(IntEnum):
    """Kafka's numbers of the resource types."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


async def alter_each(
    resources: Sequence[Resource],
    alter: Callable[[Resource], Awaitable[ConfigPlan | Rejection]],
    row: Callable[[int, str | None, int, str], Row],
    context: RequestContext,
) -> list[Row]:
    """Alter every resource, also when the client no longer waits. One that is named twice is refused."""
    keys = [(resource.resource_type, resource.resource_name) for resource in resources]
    times = Counter(keys)
    rows: list[Row] = []

    async def alter_all() -> None:
        async for resource, key in context.yielder.over(zip(resources, keys, strict=True)):
            outcome = REPEATED if times[key] > 1 else await alter(resource)
            code, message = (outcome.code, outcome.message) if isinstance(outcome, Rejection) else (0, None)
            rows.append(row(int(code), message, *key))

    await run_to_end(context.broker, alter_all())
    return rows


@dataclass(frozen=True, slots=True)
class ConfigDecisions(Generic[Wanted]):
    """How an API decides what it wants of the settings of each kind of resource."""

    of_topic: Callable[[MetadataImage, str, Wanted, CheckConfigs], ConfigPlan | Rejection]
    of_group: Callable[[MetadataImage, str, Wanted, CheckConfigs], ConfigPlan | Rejection]
    of_broker: Callable[[MetadataImage, int | None, Wanted, CheckConfigs], ConfigPlan | Rejection]
    of_client_metrics: Callable[[MetadataImage, str, Wanted, CheckConfigs], ConfigPlan | Rejection]


async def carry_out(
    resource: ConfigResource,
    wanted: Wanted,
    decisions: ConfigDecisions[Wanted],
    broker: Broker,
    *,
    is_dry_run: bool,
) -> ConfigPlan | Rejection:
    """Commit what is wanted of a resource's settings; the empty name of a broker stands for all brokers."""
    name = resource.resource_name

    def decide(image: MetadataImage) -> ConfigPlan | Rejection:
        if resource.resource_type == ResourceType.TOPIC:
            return decisions.of_topic(image, name, wanted, broker.current_settings.check_topic)
        if resource.resource_type == ResourceType.GROUP:
            return decisions.of_group(image, name, wanted, broker.group_configs.check)
        if resource.resource_type == ResourceType.CLIENT_METRICS:
            return decisions.of_client_metrics(image, name, wanted, parse_subscription)
        check = partial(broker.current_settings.check_broker, is_for_all=not name)
        return decisions.of_broker(image, int(name) if name else None, wanted, check)

    return await attempt(broker.metadata_changes.carry_out(decide, is_dry_run=is_dry_run))


def wrong_type(number: int) -> Rejection:
    if number in list(ResourceType):
        kind = ResourceType(number).name
        return Rejection(ErrorCode.INVALID_REQUEST, f"There are no configurations of the type {kind} here yet.")
    return Rejection(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}")


def judge_topic(name: str, image: MetadataImage) -> Rejection | None:
    """Why a topic has no configurations here; None where it has."""
    if (problem := name_problem(name)) is not None:
        return Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in image.topics:
        return Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return None


def judge_broker(name: str, broker: Broker, expected: str) -> Rejection | None:
    """Why this broker cannot show a broker's configurations; None where it can."""
    if not name.removeprefix("-").isdecimal():
        return Rejection(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.node_id:
        return Rejection(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}")
    return None


def judge_change(resource_type: int, name: str, settings: Sequence[str], broker: Broker) -> Rejection | None:
    """Why configurations cannot change, apart from their values."""
    if len(set(settings)) < len(settings):
        return Rejection(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if resource_type == ResourceType.TOPIC:
        if not name:
            return Rejection(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        return judge_topic(name, broker.metadata.image)
    if resource_type == ResourceType.GROUP:
        return None if name else NO_GROUP
    if resource_type == ResourceType.CLIENT_METRICS:
        return None if name else NO_SUBSCRIPTION
    if resource_type != ResourceType.BROKER:
        return wrong_type(resource_type)
    if name and (rejection := judge_broker(name, broker, str(broker.node_id))) is not None:
        return rejection
    return _judge_own(settings, broker)


def _judge_own(settings: Sequence[str], broker: Broker) -> Rejection | None:
    """Why a broker's settings cannot change while it runs."""
    known = {entry.name for entry in broker_entries(broker.current_settings)}
    fixed = [name for name in settings if name in known and name not in DYNAMIC]
    if not fixed:
        return None
    return Rejection(
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs dynamically: Set({', '.join(fixed)}); set them where the broker is started",
    )


def missing_value(name: str) -> Rejection:
    return Rejection(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")


NO_SUBSCRIPTION = Rejection(ErrorCode.INVALID_REQUEST, "Default client metrics resources are not allowed.")
NO_GROUP = Rejection(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
REPEATED = Rejection(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
