"""The topic under test: a temporary one, created and deleted, or an existing one. Also temporary groups.

A run deletes what it created, whatever ends it; where that fails, it prints the name.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from qanat.app.client.target import Target, run
from qanat.app.terminal.standard_streams import print_error
from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError, check
from qanat.connection.offsets import list_bounds
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from qanat.wire.kafka.registry import ApiKey

PREFIX = "qanat-bench-"
BROKERS_DEFAULT = -1
_ASK_AGAIN_S = 0.005
_MAKE_S = 60.0
"""The least time allowed for creating thousands of partitions; --timeout is for single requests."""


@dataclass(frozen=True, slots=True)
class TopicInUse:
    """The topic under test."""

    name: str
    partitions: int
    is_temporary: bool
    brokers: tuple[tuple[str, int], ...]
    """Addresses of the cluster's brokers."""


def fresh_name() -> str:
    return PREFIX + secrets.token_hex(4)


@contextmanager
def topic_in_use(target: Target, name: str | None, partitions: int, copies: int) -> Iterator[TopicInUse]:
    """An existing topic, by its name, or a new one that is deleted afterwards."""
    if name is not None:
        yield run(target, lambda cluster: _found(cluster, name))
        return
    own = fresh_name()
    # If no broker answers, there is nothing to delete either.
    run(target, lambda cluster: cluster.metadata([], cluster.deadline()))
    with deleted_afterwards(target, own):
        yield run(target, lambda cluster: _made(cluster, own, partitions, copies))


@contextmanager
def deleted_afterwards(target: Target, topic: str) -> Iterator[None]:
    """Delete a temporary topic at the end, whether it exists or not."""
    try:
        yield
    finally:
        try:
            run(target, lambda cluster: delete_topic(cluster, topic))
        except (QanatError, KeyboardInterrupt) as fault:
            print_error(
                f"the temporary topic may still exist ({fault or 'interrupted'}): qanat topic delete {topic} --yes"
            )


async def _found(cluster: Cluster, name: str) -> TopicInUse:
    try:
        view = await cluster.topic(name, cluster.deadline())
    except RefusedError as fault:
        if fault.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        hint = f"create it (qanat topic create {name}), or leave --topic out for a temporary one"
        raise RefusedError(fault.code, f"{fault}: {hint}") from None
    return await _in_use(cluster, view, is_temporary=False)


async def _made(cluster: Cluster, name: str, partitions: int, copies: int) -> TopicInUse:
    return await _in_use(cluster, await create_topic(cluster, name, partitions, copies), is_temporary=True)


async def _in_use(cluster: Cluster, view: TopicLeaders, *, is_temporary: bool) -> TopicInUse:
    metadata = await cluster.metadata([], cluster.deadline())
    brokers = tuple((broker.host, broker.port) for broker in metadata.brokers)
    return TopicInUse(view.name, len(view.leaders), is_temporary, brokers)


async def create_topic(cluster: Cluster, name: str, partitions: int, copies: int) -> TopicLeaders:
    """Create a topic and wait until every partition has a leader."""
    deadline = Deadline.after(max(cluster.timeout_s, _MAKE_S))
    request = CreateTopicsRequest([CreatableTopic(name, partitions, copies)], timeout_ms=deadline.left_ms)
    response: CreateTopicsResponse = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, deadline)
    (result,) = response.topics
    check("cannot create a temporary topic", result.error_code, result.error_message)
    while True:
        try:
            return await cluster.topic(name, deadline)
        except RefusedError as fault:
            # A broker may not have seen the new topic yet.
            if fault.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or deadline.is_over:
                raise
        await deadline.pause(_ASK_AGAIN_S)


async def delete_topic(cluster: Cluster, name: str) -> None:
    deadline = Deadline.after(max(cluster.timeout_s, _MAKE_S))
    request = DeleteTopicsRequest([name], [DeleteTopicState(name)], timeout_ms=deadline.left_ms)
    response: DeleteTopicsResponse = await cluster.call_controller(ApiKey.DELETE_TOPICS, request, deadline)
    for result in response.responses:
        if result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(f"cannot delete topic {name}", result.error_code, result.error_message)


async def bounds_of(cluster: Cluster, name: str) -> dict[int, tuple[int, int]]:
    """First offset and end of each partition, for consumers that read committed records."""
    deadline = cluster.deadline()
    return await list_bounds(cluster, await cluster.topic(name, deadline), deadline, is_committed_only=True)


def offset_count(bounds: Mapping[int, tuple[int, int]]) -> int:
    """The number of offsets, which is at least that of records: offsets may have gaps."""
    return sum(end - first for first, end in bounds.values())


async def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a temporary group, if it exists."""
    deadline = cluster.deadline()
    link = await cluster.coordinator_link(group, deadline)
    await link.call(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group]), deadline)
