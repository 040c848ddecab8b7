"""Administration of topics: create, list, describe, alter, delete, add partitions, delete records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.api.configs.config_resources import ResourceType
from qanat.cluster import values
from qanat.model.error_codes import ErrorCode
from qanat.servers.http.admin.config_admin import ConfigChanges, alter, set_configs, spelled
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import WindowQuery, in_order, window_in
from qanat.servers.http.problems import Problem, check
from qanat.servers.http.records.record_parsing import TopicName
from qanat.servers.http.reply import Reply
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from qanat.wire.kafka.registry import ApiKey

_INT32_MAX = 2**31 - 1
Number = Annotated[int, Meta(ge=1, le=_INT32_MAX)]
Factor = Annotated[int, Meta(ge=1, le=32_767)]
Offset = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
_DEFAULT = -1


class TopicToCreate(RequestBody, frozen=True):
    """A topic to create."""

    name: TopicName
    partitions: Number | None = None
    """How many; `num.partitions` where it is left out."""
    replication_factor: Factor | None = None
    """How many replicas; `default.replication.factor` where it is left out."""
    configs: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)
    """Settings under Kafka's names."""
    validate_only: bool = False
    """Only check whether it could be created."""


class PartitionView(msgspec.Struct):
    """One partition."""

    partition: int
    leader: int
    replicas: list[int]
    in_sync_replicas: list[int]
    earliest_offset: int | None
    """None where no leader answers now."""
    latest_offset: int | None


class TrafficView(msgspec.Struct):
    """Sizes, rates and lag of a topic."""

    size_bytes: int
    """Of the leaders' logs; each further replica takes as much again."""
    records: int
    """Offsets between start and end; what compaction removed counts."""
    records_per_s: float
    bytes_per_s: float
    lag: int | None
    """The largest lag of a group in this topic, of those that the caller may see; None where no group has read it."""


class TopicView(msgspec.Struct):
    """A topic."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool
    configs: dict[str, str]
    """The settings of this topic itself."""
    traffic: TrafficView | None = None
    """With `traffic=true`, or sorted by it; None where it is not known yet."""


class TopicDescription(TopicView, kw_only=True):
    """A topic with its partitions."""

    partition_details: list[PartitionView]


class TopicPage(msgspec.Struct):
    """Some topics."""

    topics: list[TopicView]
    next_page_token: str | None
    total: int
    """How many topics the whole listing has."""


class TopicsQuery(WindowQuery, frozen=True):
    """Which topics."""

    internal: bool = False
    """Whether to list internal topics as well."""
    search: str | None = None
    """Only topics whose names contain this, whatever the case."""
    traffic: bool = False
    """Whether to show sizes, rates and lag, as of the last seconds."""
    sort: Literal["name", "partitions", "size_bytes", "records", "records_per_s", "bytes_per_s", "lag"] = "name"
    """By name, or the largest number first."""


class TopicToAlter(RequestBody, frozen=True):
    """Changes of a topic."""

    configs: ConfigChanges = msgspec.field(default_factory=dict)
    """Settings under Kafka's names; null resets to the default."""
    partitions: Number | None = None
    """How many in all; never fewer than now."""


class PartitionsToAdd(RequestBody, frozen=True):
    """The new number of partitions."""

    partitions: Number
    """In all: more than now."""


class RecordsToDelete(RequestBody, frozen=True):
    """The records to delete."""

    offsets: dict[str, Offset]
    """By partition: the first offset that stays; -1 deletes all there are."""


class StartOffsets(msgspec.Struct):
    """Where partitions begin now."""

    earliest_offsets: dict[str, int]


class TopicChanged(msgspec.Struct):
    """What was done."""

    name: str
    done: Literal["created", "validated", "deleted", "altered"]


async def create_topic(exchange: Exchange) -> Reply:
    wanted: TopicToCreate = exchange.body
    context = exchange.context
    configs = [CreatableTopicConfig(name, spelled(value)) for name, value in wanted.configs.items()]
    topic = CreatableTopic(
        wanted.name, wanted.partitions or _DEFAULT, wanted.replication_factor or _DEFAULT, configs=configs
    )
    request = CreateTopicsRequest([topic], _timeout_ms(exchange), wanted.validate_only)
    response: CreateTopicsResponse = await context.gateway.call(exchange.caller, ApiKey.CREATE_TOPICS, request)
    result = response.topics[0]
    check(result.error_code, f"topic {wanted.name} cannot be created", result.error_message)
    if wanted.validate_only:
        return Reply(200, msgspec.json.encode(TopicChanged(wanted.name, "validated")))
    made = await context.topics.find(exchange.caller, wanted.name, may_create=False)
    return Reply(201, msgspec.json.encode(view_of(exchange, made)) + b"\n")


async def list_topics(exchange: Exchange) -> TopicPage:
    query: TopicsQuery = exchange.query
    context = exchange.context
    image = context.broker.metadata.image
    has_traffic = query.traffic or query.sort not in ("name", "partitions")
    is_known = has_traffic and await context.traffic.ready()
    lags = await context.lags.by_topic(context.gateway.group_filter(exchange.caller)) if has_traffic else {}
    number_of = _number(exchange, query.sort, lags)

    async def ordered() -> Sequence[str]:
        return in_order(await _names(exchange), number_of, str, query)

    if query.sort in ("name", "partitions"):
        rows = await ordered()
    else:
        seen = context.gateway.view_of(exchange.caller)
        question = seen and ("topics", seen, query.internal, query.search, query.sort, query.reverse)
        rows = await context.listings.get(question, ordered)
    window = window_in(rows, number_of, str, query)
    views = [view_of(exchange, image.topics[name]) for name in window.rows if name in image.topics]
    if is_known:
        for view in views:
            view.traffic = traffic_of(exchange, view.name, lags)
    return TopicPage(views, window.token, window.total)


async def _names(exchange: Exchange) -> list[str]:
    """The topics that the query asks for."""
    query: TopicsQuery = exchange.query
    topics = exchange.context.broker.metadata.image.topics
    names = await exchange.context.topics.names(exchange.caller)
    if query.internal:
        names += [name for name, topic in topics.items() if topic.is_internal]
    if query.search is not None:
        names = [name for name in names if query.search.lower() in name.lower()]
    return [name for name in dict.fromkeys(names) if name in topics]


def _number(exchange: Exchange, sort: str, lags: Mapping[str, int]) -> Callable[[str], float] | None:
    """What a listing is sorted by; None for names."""
    traffic, topics = exchange.context.traffic, exchange.context.broker.metadata.image.topics
    if sort == "name":
        return None
    if sort == "partitions":
        return lambda name: len(topics[name].partitions)
    if sort == "lag":
        return lambda name: lags.get(name, -1)
    return lambda name: float(getattr(traffic.of_topic(name), sort))


def traffic_of(exchange: Exchange, name: str, lags: Mapping[str, int]) -> TrafficView:
    found = exchange.context.traffic.of_topic(name)
    return TrafficView(
        found.size_bytes, found.records, round(found.records_per_s, 3), round(found.bytes_per_s, 3), lags.get(name)
    )


def view_of(exchange: Exchange, topic: values.Topic) -> TopicView:
    return TopicView(
        topic.name,
        topic.topic_id,
        len(topic.partitions),
        len(topic.partitions[0]),
        topic.is_internal,
        dict(exchange.context.broker.metadata.image.overrides(topic.name)),
    )


async def describe_topic(exchange: Exchange) -> TopicDescription:
    context, caller = exchange.context, exchange.caller
    topic = await context.topics.find(caller, exchange.path["topic"], may_create=False)
    numbers = range(len(topic.partitions))
    first, last = await context.reads.offset_ranges(caller, topic.name, numbers, may_lack=True)
    view = view_of(exchange, topic)
    details = [_partition(exchange, topic, number, first.get(number), last.get(number)) for number in numbers]
    return TopicDescription(
        view.name,
        view.topic_id,
        view.partitions,
        view.replication_factor,
        view.internal,
        view.configs,
        partition_details=details,
    )


def _partition(
    exchange: Exchange, topic: values.Topic, number: int, first: int | None, last: int | None
) -> PartitionView:
    state = exchange.context.broker.metadata.image.state(topic, number)
    in_sync = [member.node_id for member in state.in_sync]
    return PartitionView(number, state.leader, list(state.replicas), in_sync, first, last)


async def delete_topic(exchange: Exchange) -> TopicChanged:
    name = exchange.path["topic"]
    await exchange.context.topics.find(exchange.caller, name, may_create=False)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=_timeout_ms(exchange))
    response: DeleteTopicsResponse = await exchange.context.gateway.call(exchange.caller, ApiKey.DELETE_TOPICS, request)
    result = response.responses[0]
    check(result.error_code, f"topic {name} cannot be deleted", result.error_message)
    return TopicChanged(name, "deleted")


async def alter_topic(exchange: Exchange) -> TopicDescription:
    wanted: TopicToAlter = exchange.body
    name = exchange.path["topic"]
    topic = await exchange.context.topics.find(exchange.caller, name, may_create=False)
    if wanted.configs:
        await alter(exchange, ResourceType.TOPIC, name, set_configs(wanted.configs))
    if wanted.partitions is not None and wanted.partitions != len(topic.partitions):
        await _add_partitions(exchange, name, wanted.partitions)
    return await describe_topic(exchange)


async def add_partitions(exchange: Exchange) -> TopicDescription:
    wanted: PartitionsToAdd = exchange.body
    name = exchange.path["topic"]
    await exchange.context.topics.find(exchange.caller, name, may_create=False)
    await _add_partitions(exchange, name, wanted.partitions)
    return await describe_topic(exchange)


async def _add_partitions(exchange: Exchange, name: str, count: int) -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], _timeout_ms(exchange))
    response: CreatePartitionsResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.CREATE_PARTITIONS, request
    )
    result = response.results[0]
    check(result.error_code, f"partitions of topic {name}", result.error_message)


async def delete_records(exchange: Exchange) -> StartOffsets:
    wanted: RecordsToDelete = exchange.body
    context = exchange.context
    topic = await context.topics.find(exchange.caller, exchange.path["topic"], may_create=False)
    rows: dict[int, list[DeleteRecordsPartition]] = {}
    for text, offset in wanted.offsets.items():
        if not (text.isascii() and text.isdigit()) or int(text) > _INT32_MAX:
            raise Problem(400, f"offsets: {text[:50]!r} is no partition: partitions are numbers", pointer=".offsets")
        number = int(text)
        context.topics.check_partition(topic, number)
        rows.setdefault(context.gateway.leader(topic.name, number), []).append(DeleteRecordsPartition(number, offset))
    starts: dict[str, int] = {}
    for leader, partitions in rows.items():
        request = DeleteRecordsRequest([DeleteRecordsTopic(topic.name, partitions)], _timeout_ms(exchange))
        response: DeleteRecordsResponse = await context.gateway.call(
            exchange.caller, ApiKey.DELETE_RECORDS, request, leader
        )
        for row in response.topics[0].partitions:
            what = f"records of topic {topic.name} partition {row.partition_index}"
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                first, last = await context.reads.offset_range(exchange.caller, topic.name, row.partition_index)
                check(
                    row.error_code,
                    what,
                    f"there are offsets {first} to {last}; name one of them, or -1 for all",
                    earliest_offset=first,
                    latest_offset=last,
                )
            check(row.error_code, what)
            starts[str(row.partition_index)] = row.low_watermark
    return StartOffsets(starts)


def _timeout_ms(exchange: Exchange) -> int:
    return exchange.context.settings.http_request_timeout_ms


OPERATIONS = (
    Operation(
        "POST",
        "/api/v1/topics",
        create_topic,
        "Create a topic",
        "topics",
        body=TopicToCreate,
        answer=(TopicView, TopicChanged),
        status=201,
        statuses=(200,),
    ),
    Operation("GET", "/api/v1/topics", list_topics, "List topics", "topics", query=TopicsQuery, answer=TopicPage),
    Operation("GET", "/api/v1/topics/{topic}", describe_topic, "Describe a topic", "topics", answer=TopicDescription),
    Operation(
        "PATCH",
        "/api/v1/topics/{topic}",
        alter_topic,
        "Change a topic's settings, or add partitions",
        "topics",
        body=TopicToAlter,
        answer=TopicDescription,
    ),
    Operation("DELETE", "/api/v1/topics/{topic}", delete_topic, "Delete a topic", "topics", answer=TopicChanged),
    Operation(
        "POST",
        "/api/v1/topics/{topic}/partitions",
        add_partitions,
        "Add partitions",
        "topics",
        body=PartitionsToAdd,
        answer=TopicDescription,
    ),
    Operation(
        "DELETE",
        "/api/v1/topics/{topic}/records",
        delete_records,
        "Delete records before an offset",
        "topics",
        body=RecordsToDelete,
        answer=StartOffsets,
    ),
)
