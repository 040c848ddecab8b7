"""One member of a consumer group, in the classic protocol: it joins, sends heartbeats, commits, and leaves.

The caller reads the partitions of `join` while `is_current`; when that ends, it stops, and joins again. Heartbeats
go on until it does, so that it may take its time. `consuming.classic_membership` calls a listener instead.

Rule 1: commits carry the generation, so that a removed member cannot overwrite what others have read since.
Rule 2: nothing is assumed of the other members: the group's leader assigns, with an assignor that all of them have.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qanat.connection.assignors import ASSIGNORS, decode_assignment, decode_claim, encode_assignment, encode_claim
from qanat.connection.cluster import Cluster
from qanat.connection.consuming.coordinator import Coordinator
from qanat.connection.consuming.group_commits import CommittedOffset, Identity, commit_as_member
from qanat.connection.consuming.sticky_assignor import COOPERATIVE_STICKY, Claim, assign_cooperatively
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError, check
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from qanat.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from qanat.wire.kafka.registry import ApiKey

SESSION_MS = 10_000
"""Session timeout: how long after its last heartbeat a member is removed."""
REBALANCE_MS = 60_000
"""Rebalance timeout: how long a group waits for its members to join again."""
HEARTBEAT_S = 1.0
_LEAVE_S = 3.0
_CONSUMER = "consumer"
_THROWN_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
_CHANGED = (*_THROWN_OUT, ErrorCode.REBALANCE_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """How a member joins."""

    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    heartbeat_s: float = HEARTBEAT_S
    instance_id: str | None = None
    """The name of a static member (KIP-345): its place waits for it while it restarts."""
    assignors: Sequence[str] = tuple(ASSIGNORS)
    """Best first; the group takes one that all members have."""


class Membership:
    """A place in a group, left at the end. `async with Membership(...)`."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str], terms: JoinTerms | None = None) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        self._terms = terms or JoinTerms()
        self._coordinator = Coordinator(cluster, group)
        self._member_id = ""
        self._generation = -1
        self._owned_since = -1
        """The generation of the latest assignment."""
        self._over = asyncio.Event()
        self._over.set()
        self._heart: asyncio.Task[None] | None = None
        self.owned: list[TopicPartition] = []
        """What this member says that it owns when it joins; for cooperative rebalances."""
        self.trouble = ""
        """Why the last heartbeat was not answered; empty where it was."""
        self.was_removed = False
        """Whether the group removed this member since the caller last set it to False: others may own its part."""

    async def __aenter__(self) -> Membership:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    @property
    def is_current(self) -> bool:
        """Whether the latest assignment is still ours."""
        return not self._over.is_set()

    @property
    def identity(self) -> Identity:
        """Who commits."""
        return Identity(self._member_id, self._generation, self._terms.instance_id)

    async def wait_for_change(self) -> None:
        """Wait until the group has to be joined again."""
        await self._over.wait()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics instead; the group has to be joined again."""
        self._topics = list(topics)
        self._over.set()

    async def join(self) -> list[TopicPartition]:
        """Join, for the first time or again; returns the partitions that are ours until the group changes."""
        await self._stop_heart()
        while True:
            deadline = Deadline.after(self._terms.rebalance_ms / 1000 + self._cluster.timeout_s)
            try:
                assigned = await self._cluster.persist(lambda: self._join_once(deadline), deadline)  # noqa: B023
            except RefusedError as fault:
                if fault.code == ErrorCode.FENCED_INSTANCE_ID:
                    raise
                if fault.code in _THROWN_OUT:
                    self._forget_place()
                elif fault.code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
                    raise
                continue
            self._owned_since = self._generation
            self._over.clear()
            self._heart = asyncio.create_task(self._beat())
            return assigned

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> bool:
        """Commit for the group; False where it has changed, and the offsets may belong to another member now."""
        wanted = {at: one if isinstance(one, CommittedOffset) else CommittedOffset(one) for at, one in offsets.items()}
        deadline = self._cluster.deadline()

        async def attempt() -> None:
            await commit_as_member(self._coordinator, self.identity, wanted, deadline)

        try:
            await self._cluster.persist(attempt, deadline)
        except RefusedError as fault:
            if fault.code not in _CHANGED:
                raise
            self._note_change(fault.code)
            return False
        return True

    async def leave(self) -> None:
        """End the heartbeats, and leave. A static member does not: its place waits for it."""
        await self._stop_heart()
        if self._member_id and self._terms.instance_id is None:
            with contextlib.suppress(QanatError):
                await self._leave()

    # Inside

    async def _call_coordinator(self, api_key: ApiKey, request: object, deadline: Deadline) -> Any:
        response = await self._coordinator.call(api_key, request, deadline)
        self._coordinator.note(response.error_code)
        return response

    async def _join_once(self, deadline: Deadline) -> list[TopicPartition]:
        subscription = encode_claim(Claim(self._topics, self.owned, self._owned_since))
        request = JoinGroupRequest(
            self._group,
            self._terms.session_ms,
            self._terms.rebalance_ms,
            self._member_id,
            group_instance_id=self._terms.instance_id,
            protocol_type=_CONSUMER,
            protocols=[JoinGroupRequestProtocol(name, subscription) for name in self._terms.assignors],
        )
        joined: JoinGroupResponse = await self._call_coordinator(ApiKey.JOIN_GROUP, request, deadline)
        # A new member gets its id first, and has to come back with it (KIP-394).
        self._member_id = joined.member_id or self._member_id
        check(f"cannot join group {self._group}", joined.error_code, _hint(joined.error_code))
        self._generation = joined.generation_id
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        assignments = await self._assign(joined, deadline) if leads else []
        sync = SyncGroupRequest(
            self._group,
            self._generation,
            self._member_id,
            group_instance_id=self._terms.instance_id,
            protocol_type=_CONSUMER,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        synced: SyncGroupResponse = await self._call_coordinator(ApiKey.SYNC_GROUP, sync, deadline)
        check(f"group {self._group} gives out no partitions", synced.error_code)
        return decode_assignment(bytes(synced.assignment))

    async def _assign(self, joined: JoinGroupResponse, deadline: Deadline) -> list[SyncGroupRequestAssignment]:
        claims = {one.member_id: decode_claim(bytes(one.metadata)) for one in joined.members}
        wanted = sorted({topic for claim in claims.values() for topic in claim.topics})
        found = (await self._cluster.metadata(wanted, deadline)).topics
        sizes = {topic.name: len(topic.partitions) for topic in found if topic.name and not topic.error_code}
        if joined.protocol_name == COOPERATIVE_STICKY:
            assigned = assign_cooperatively(claims, sizes)
        else:
            subscriptions = {member: claim.topics for member, claim in claims.items()}
            assigned = ASSIGNORS[joined.protocol_name or ""](subscriptions, sizes)
        return [SyncGroupRequestAssignment(member, encode_assignment(parts)) for member, parts in assigned.items()]

    async def _beat(self) -> None:
        """Send heartbeats until the group is joined again, or left, or has removed us.

        An unreachable coordinator is tried again: the session decides.
        """
        while True:
            await asyncio.sleep(self._terms.heartbeat_s)
            request = HeartbeatRequest(self._group, self._generation, self._member_id, self._terms.instance_id)
            try:
                response: HeartbeatResponse = await self._call_coordinator(
                    ApiKey.HEARTBEAT, request, self._cluster.deadline()
                )
            except (UnreachableError, OutOfTimeError, RefusedError) as fault:
                self.trouble = str(fault)
                continue
            self.trouble = ""
            if response.error_code in _CHANGED:
                self._note_change(response.error_code)
            if response.error_code in _THROWN_OUT:
                return

    def _note_change(self, code: int) -> None:
        if code in _THROWN_OUT:
            self._forget_place()
        self._over.set()

    def _forget_place(self) -> None:
        self._member_id = ""
        self._generation = self._owned_since = -1
        self.was_removed = True

    async def _stop_heart(self) -> None:
        self._over.set()
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.wait([self._heart])
            self._heart = None

    async def _leave(self) -> None:
        deadline = Deadline.after(min(_LEAVE_S, self._cluster.timeout_s))
        request = LeaveGroupRequest(self._group, self._member_id, [MemberIdentity(self._member_id)])
        await self._call_coordinator(ApiKey.LEAVE_GROUP, request, deadline)


def _hint(code: int) -> str | None:
    match code:
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return f"its members use none of the assignors {', '.join(ASSIGNORS)}, or are no classic consumers"
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            return "it has as many members as the broker allows"
        case ErrorCode.INVALID_GROUP_ID:
            return "the name is not one that a group may have"
        case _:
            return None
