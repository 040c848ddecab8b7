"""FindCoordinator (10): the broker that coordinates a group or a transactional id.

v0   groups only    v1   key type, error message    v3   flexible    v4   many keys at once
v5   TRANSACTION_ABORTABLE may be answered    v6   share groups (key type 2)

The request creates the internal topic. Members of share groups look for their group (key type 0). A key of type 2,
`group:topic id:partition`, names the state of a share group in one partition; only brokers use it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from qanat.api.cluster.authorization import needs_cluster
from qanat.api.endpoints import endpoint_of
from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.wire.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

GROUP, TRANSACTION, SHARE_STATE = 0, 1, 2
_MANY_FROM = 4
_STATE_KEY = re.compile(r"(?s).+:[A-Za-z0-9_-]{22}:\d{1,9}")


class CoordinatorTopic(Protocol):
    """An internal topic whose partitions are coordinators."""

    @property
    def name(self) -> str: ...

    def partition_of(self, key: str) -> int: ...

    async def ensure(self) -> ErrorCode: ...


def _names_state(key: str) -> bool:
    return _STATE_KEY.fullmatch(key) is not None


def authorize(request: FindCoordinatorRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each group or transactional id. Only brokers look for share state: CLUSTER_ACTION on the cluster."""
    if request.key_type == SHARE_STATE:
        refused = _denied(request, access.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return needs_cluster(Operation.CLUSTER_ACTION, access, refused)
    is_transaction = request.key_type == TRANSACTION
    kind = ResourceKind.TRANSACTIONAL_ID if is_transaction else ResourceKind.GROUP
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if is_transaction:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if access.version < _MANY_FROM:
        is_allowed = access.may(Operation.DESCRIBE, kind, request.key)
        return access.grant() if is_allowed else access.deny(_denied(request, access.version, code))
    request.coordinator_keys, denied = access.split(
        request.coordinator_keys, lambda key: access.may(Operation.DESCRIBE, kind, key)
    )
    return access.grant_without(denied, lambda response: response.coordinators, lambda key: _refused(key, code))


def _denied(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    if version < _MANY_FROM:
        return FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1)
    return FindCoordinatorResponse(coordinators=[_refused(key, code) for key in request.coordinator_keys])


def _refused(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key, -1, "", -1, code, None)


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
    coordinated: CoordinatorTopic = broker.groups.topic
    if key_type == TRANSACTION:
        coordinated = broker.transactions.topic
    elif key_type == SHARE_STATE:
        coordinated = broker.share_partitions.states.topic
    topic, number, error = coordinated.name, coordinated.partition_of(key), await coordinated.ensure()
    if error is not ErrorCode.NONE:
        return Coordinator(key, -1, "", -1, error, f"{topic} cannot be created now; try again")
    image = broker.metadata.image
    leader = image.brokers.get(image.state(image.topics[topic], number).leader)
    listener = None if leader is None else endpoint_of(leader, context.caller)
    if leader is None or listener is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, code, f"partition {number} of {topic} has no leader now; try again")
    return Coordinator(key, leader.node_id, listener.host, listener.port, 0, None)
