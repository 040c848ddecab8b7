"""An operator's requests over the push protocol, in HEARTBEAT: begin a refresh, cancel it, list how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.groups.push_refresh import (
    RefreshRefusedError,
    begin_refresh,
    cancel_refresh,
    require_refresh,
    visible_refreshes,
)
from qanat.model.errors import QanatError
from qanat.wire.push.control import VERSION, Ack, Heartbeat

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.broker.broker import Broker
    from qanat.servers.push.local_cluster import LocalCluster

_BEGIN, _CANCEL, _LIST = "refresh", "cancel-refresh", "refreshes"
REFRESH_REQUESTS = (_BEGIN, _CANCEL, _LIST)


async def answer_refresh(broker: Broker, cluster: LocalCluster, access: AccessCheck | None, said: Heartbeat) -> Ack:
    """The answer to one request; a refusal has `error` and `message`."""
    if said.ask == _LIST:
        return Ack(v=VERSION, refreshes=visible_refreshes(broker, access, said.group, said.topic))
    if not said.group or not said.topic:
        return Ack(v=VERSION, error="malformed", message="name a group and a topic")
    if any(one.topic not in ("", said.topic) for one in said.positions):
        return Ack(v=VERSION, error="malformed", message=f"positions are of topic {said.topic}")
    try:
        require_refresh(access, said.group, said.topic)
        if said.ask == _CANCEL:
            entry = await cancel_refresh(broker, said.group, said.topic)
        else:
            starts = {one.partition: one.offset for one in said.positions}
            entry = await begin_refresh(broker, cluster, said.group, said.topic, starts or None)
    except RefreshRefusedError as fault:
        return Ack(v=VERSION, error=fault.reason, message=str(fault))
    except QanatError as fault:
        return Ack(v=VERSION, error=fault.code.name.lower().replace("_", "-"), message=str(fault))
    return Ack(v=VERSION, refreshes=[entry])
