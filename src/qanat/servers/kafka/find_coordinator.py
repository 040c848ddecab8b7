"""FindCoordinator (10): which broker has a group or a transactional id.

v0   groups only    v1   key type, error message    v3   flexible    v4   many keys at once
v5   TRANSACTION_ABORTABLE may be answered    v6   share groups (key type 2)

Asking creates the internal topic. Share groups are not coordinated yet: their keys are answered with
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from qanat.cluster.topic_names import OFFSETS_TOPIC
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE_GROUP = 0, 1, 2
_MANY_FROM = 4


def handle(request: FindCoordinatorRequest, context: Context) -> object:
    return context.broker.park(_find(request, context))


async def _find(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    if context.version >= _MANY_FROM:
        keys = context.breaths.over(request.coordinator_keys)
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


async def _coordinator(key: str, key_type: int, context: Context) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if key_type == SHARE_GROUP else ErrorCode.INVALID_REQUEST
        return Coordinator(key, -1, "", -1, code, "only groups and transactions are coordinated by this version")
    broker = context.broker
    if key_type == GROUP:
        topic, number, error = OFFSETS_TOPIC, broker.groups.partition_of(key), await broker.groups.ensure_topic()
    else:
        coordinated = broker.transactions.topic
        topic, number, error = coordinated.name, coordinated.partition_of(key), await coordinated.ensure()
    if error is not ErrorCode.NONE:
        return Coordinator(key, -1, "", -1, error, f"{topic} cannot be created now; try again")
    image = broker.metadata.image
    leader = image.brokers.get(image.state(image.topics[topic], number).leader)
    if leader is None or not leader.listeners:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, code, f"partition {number} of {topic} has no leader now; try again")
    return Coordinator(key, leader.node_id, leader.listeners[0].host, leader.listeners[0].port, 0, None)
