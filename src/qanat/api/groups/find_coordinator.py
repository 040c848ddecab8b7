"""FindCoordinator (10): which broker has a group or a transactional id.

v0   groups only    v1   key type, error message    v3   flexible    v4   many keys at once
v5   TRANSACTION_ABORTABLE may be answered    v6   share groups (key type 2)

Asking creates the internal topic. Members of share groups ask for their group (key type 0); the key of type 2 names
where a group's state in one partition is kept, `group:topic id:partition`, and is for brokers.
"""

from __future__ import annotations

import re
from typing import Protocol

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE_STATE = 0, 1, 2
_MANY_FROM = 4
_STATE_KEY = re.compile(r"(?s).+:[A-Za-z0-9_-]{22}:\d{1,9}")


class Coordinated(Protocol):
    """An internal topic that is divided among coordinators."""

    @property
    def name(self) -> str: ...

    def partition_of(self, key: str) -> int: ...

    async def ensure(self) -> ErrorCode: ...


def _names_state(key: str) -> bool:
    return _STATE_KEY.fullmatch(key) is not None


def handle(request: FindCoordinatorRequest, context: RequestContext) -> object:
    return context.broker.park(_find(request, context))


async def _find(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= _MANY_FROM:
        keys = context.yielder.over(request.coordinator_keys)
        found = [await _coordinator(key, request.key_type, context) async for key in keys]
        return FindCoordinatorResponse(coordinators=found)
    one = await _coordinator(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _coordinator(key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION, SHARE_STATE) or (key_type == SHARE_STATE and not _names_state(key)):
        text = f"{key!r} is no key of type {key_type}: 0 is for groups, 1 for transactions, 2 for share partitions"
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, text)
    broker = context.broker
    coordinated: Coordinated = broker.groups.topic
    if key_type == TRANSACTION:
        coordinated = broker.transactions.topic
    elif key_type == SHARE_STATE:
        coordinated = broker.share_partitions.states.topic
    topic, number, error = coordinated.name, coordinated.partition_of(key), await coordinated.ensure()
    if error is not ErrorCode.NONE:
        return Coordinator(key, -1, "", -1, error, f"{topic} cannot be created now; try again")
    image = broker.metadata.image
    leader = image.brokers.get(image.state(image.topics[topic], number).leader)
    if leader is None or not leader.listeners:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, code, f"partition {number} of {topic} has no leader now; try again")
    return Coordinator(key, leader.node_id, leader.listeners[0].host, leader.listeners[0].port, 0, None)
