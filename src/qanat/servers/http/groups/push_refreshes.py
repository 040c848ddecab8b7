"""Refreshes of push subscribers: begin one, see how far they are, end one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from qanat.api.groups.push_refresh import (
    RefreshRefusedError,
    begin_refresh,
    cancel_refresh,
    require_refresh,
    visible_refreshes,
)
from qanat.connection.faults import RefusedError
from qanat.model.push_refreshes import PushRefresh, RefreshState
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.gateway_cluster import GatewayCluster
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.consume import time_of
from qanat.servers.http.records.record_parsing import TopicName

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck


class RefreshToBegin(RequestBody, frozen=True):
    """What push consumers of the group get again."""

    topic: TopicName
    begin: str = msgspec.field(name="from", default="earliest")
    """`earliest`, or a time in ISO 8601 or milliseconds; up to the present end."""
    partitions: Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 1)]], Meta(min_length=1)] | None = None
    """Which partitions of the topic; without it all."""


class RefreshOfPartition(msgspec.Struct):
    """How far a partition is."""

    partition: int
    state: RefreshState
    start: int
    end: int
    attempt: int


class RefreshView(msgspec.Struct):
    """A refresh of a topic for a group."""

    id: str
    group: str
    topic: str
    begun_ms: int
    is_over: bool
    partitions: list[RefreshOfPartition]


class RefreshList(msgspec.Struct):
    """The newest refresh of each topic of a group."""

    group: str
    refreshes: list[RefreshView]


def _view(entry: PushRefresh) -> RefreshView:
    rows = [RefreshOfPartition(one.partition, one.state, one.start, one.end, one.attempt) for one in entry.partitions]
    return RefreshView(entry.id, entry.group, entry.topic, entry.begun_ms, entry.is_over, rows)


def _access(exchange: Exchange) -> AccessCheck | None:
    gateway = exchange.context.gateway
    return None if gateway.security is None else gateway.security.access(gateway.broker, exchange.caller, 0)


def _require(exchange: Exchange, group: str, topic: str) -> None:
    try:
        require_refresh(_access(exchange), group, topic)
    except RefusedError as fault:
        raise problem_of(fault.code, str(fault)) from None


async def start_refresh(exchange: Exchange) -> RefreshView:
    wanted: RefreshToBegin = exchange.body
    context, caller, group = exchange.context, exchange.caller, exchange.path["group"]
    _require(exchange, group, wanted.topic)
    topic = await context.topics.find(caller, wanted.topic, may_create=False)
    numbers = list(range(len(topic.partitions))) if wanted.partitions is None else wanted.partitions
    for number in numbers:
        context.topics.check_partition(topic, number)
    starts = await context.reads.offsets_at(caller, wanted.topic, numbers, time_of(wanted.begin))
    try:
        cluster = GatewayCluster(context.gateway, caller)
        return _view(await begin_refresh(context.broker, cluster, group, wanted.topic, starts))
    except RefreshRefusedError as fault:
        raise Problem(fault.status, str(fault)) from None


async def list_refreshes(exchange: Exchange) -> RefreshList:
    group = exchange.path["group"]
    exchange.context.gateway.require_describe_group(exchange.caller, group)
    found = visible_refreshes(exchange.context.broker, _access(exchange), group)
    return RefreshList(group, [_view(one) for one in found])


async def end_refresh(exchange: Exchange) -> RefreshView:
    group, topic = exchange.path["group"], exchange.path["topic"]
    _require(exchange, group, topic)
    try:
        return _view(await cancel_refresh(exchange.context.broker, group, topic))
    except RefreshRefusedError as fault:
        raise Problem(fault.status, str(fault)) from None


_PATH = "/api/v1/groups/{group}/refreshes"
OPERATIONS = (
    Operation(
        "POST",
        _PATH,
        start_refresh,
        "Give push consumers a topic again",
        "groups",
        body=RefreshToBegin,
        answer=RefreshView,
    ),
    Operation("GET", _PATH, list_refreshes, "How far refreshes of a group are", "groups", answer=RefreshList),
    Operation("DELETE", _PATH + "/{topic}", end_refresh, "End a refresh", "groups", answer=RefreshView),
)
