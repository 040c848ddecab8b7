"""Session timeouts and rebalances on demand, by requests that members and administrators may send."""

from __future__ import annotations

import asyncio
import uuid

from qanat.broker.broker import Broker
from qanat.groups.replies import DescribeReply, LeaveReply
from qanat.groups.requests import DescribeGroup, JoinGroup, LeaveGroup, LeavingMember, Protocol
from qanat.model.error_codes import ErrorCode

_SESSION_MS = 30_000


async def describe(broker: Broker, group: str) -> DescribeReply:
    reply = await broker.groups.ask(group, DescribeGroup(group))
    assert isinstance(reply, DescribeReply)
    return reply


async def expire_session(broker: Broker, group: str, member_id: str) -> None:
    """Remove a member, as after a session timeout; raises `LookupError` where there is none."""
    reply = await broker.groups.ask(group, LeaveGroup(group, (LeavingMember(member_id),)))
    assert isinstance(reply, LeaveReply)
    outcomes = [reply.error, *(member.error for member in reply.members)]
    if any(error is not ErrorCode.NONE for error in outcomes):
        known = [member.member_id for member in (await describe(broker, group)).members]
        raise LookupError(f"group {group!r} has no member {member_id!r}; its members are {known}")


async def force_rebalance(broker: Broker, group: str) -> None:
    """Make every member join again: a new member joins, and leaves before the others have answered."""
    found = await describe(broker, group)
    if found.state != "Stable":
        raise LookupError(
            f"group {group!r} is {found.state or 'unknown'}: only a stable group can be made to rebalance"
        )
    passer_by = f"passer-by-{uuid.uuid4().hex}"
    join = JoinGroup(
        group_id=group,
        member_id="",
        protocol_type=found.protocol_type,
        protocols=(Protocol(found.protocol_name, found.members[0].metadata),),
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=_SESSION_MS,
        unique=uuid.uuid4().hex,
        instance_id=passer_by,
    )
    joining = asyncio.ensure_future(broker.groups.ask(group, join))
    await asyncio.sleep(0)  # The shard is loaded: it decides at the first step, and parks the answer.
    await broker.groups.ask(group, LeaveGroup(group, (LeavingMember("", passer_by),)))
    await joining
