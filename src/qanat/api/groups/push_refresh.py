"""Beginning, ending and listing refreshes of push subscribers, for the push protocol and for HTTP.

Kafka has no such API. The rules are those of committing a group's offsets: READ on the group and on the topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.broker.metadata.push_refreshes import PARTITIONS_MAX, wall_ms
from qanat.connection.faults import RefusedError
from qanat.connection.offsets import EARLIEST, LATEST, list_offsets
from qanat.edge.refresh_ledger import Cancel
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.push_refreshes import PartitionRefresh, PushRefresh
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.broker.broker import Broker
    from qanat.connection.cluster import Cluster


class RefreshRefusedError(QanatError):
    """A refresh that cannot begin, or end, now; `reason` is the push protocol's word, `status` that of HTTP."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, reason: str, status: int, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status


def require_refresh(access: AccessCheck | None, group: str, topic: str) -> None:
    """Raise where a caller may not refresh a topic of a group."""
    if access is None:
        return
    if not access.may_group(Operation.READ, group):
        raise RefusedError(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {group} may not be refreshed")
    if not access.may_topic(Operation.READ, topic):
        raise RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {topic} may not be read")


async def begin_refresh(
    broker: Broker, cluster: Cluster, group: str, topic: str, starts: Mapping[int, int] | None = None
) -> PushRefresh:
    """Begin a refresh, up to the present ends: of partitions from their starts, or of all from the first record."""
    deadline = cluster.deadline()
    view = await cluster.topic(topic, deadline)
    wanted = list(view.leaders) if starts is None else list(starts)
    missing = [number for number in wanted if number not in view.leaders]
    if missing:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has no partition {missing[0]}")
    if not 0 < len(wanted) <= PARTITIONS_MAX:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"a refresh is about 1 to {PARTITIONS_MAX} partitions")
    first = await list_offsets(cluster, topic, dict.fromkeys(wanted, EARLIEST), deadline)
    ends = await list_offsets(cluster, topic, dict.fromkeys(wanted, LATEST), deadline, is_committed_only=True)
    rows = []
    for number in sorted(wanted):
        end = ends[number]
        start = first[number].offset if starts is None else min(max(starts[number], first[number].offset), end.offset)
        rows.append(PartitionRefresh(number, start, end.offset, end.epoch))
    entry = PushRefresh(id=uuid.uuid4().hex[:16], group=group, topic=topic, begun_ms=wall_ms(), partitions=tuple(rows))
    if not await broker.push_refreshes.begin(entry):
        before = broker.push_refreshes.find(topic, group)
        name = "another refresh" if before is None else f"refresh {before.id}"
        raise RefreshRefusedError("under-way", 409, f"{name} of {topic} for {group} is under way; cancel it first")
    return entry


async def cancel_refresh(broker: Broker, group: str, topic: str) -> PushRefresh:
    """End a refresh: what its subscribers have served until now goes on."""
    before = broker.push_refreshes.find(topic, group)
    if before is None or before.is_over:
        raise RefreshRefusedError("no-refresh", 404, f"no refresh of {topic} for group {group} is under way")
    return await broker.push_refreshes.write(topic, group, Cancel(before.id)) or before


def visible_refreshes(
    broker: Broker, access: AccessCheck | None, group: str = "", topic: str = ""
) -> list[PushRefresh]:
    """The newest refreshes of all groups, or of one, that a caller may describe."""
    return [
        one
        for one in broker.push_refreshes.all()
        if group in ("", one.group)
        and topic in ("", one.topic)
        and (access is None or access.may_group(Operation.DESCRIBE, one.group))
    ]
