"""One member of a share group: heartbeats that join, renew and leave, and the assignment that they bring (KIP-932).

`ShareMember` decides (pure); `ShareMembership` sends its heartbeats in a task. The member names itself; when it is
fenced it keeps its id and joins again with epoch 0.

Rule: a heartbeat never waits for the user of the records; only silence of this process ends the session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RETRIABLE, OutOfTimeError, RefusedError, UnreachableError, error_code, refused
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from qanat.wire.kafka.registry import ApiKey

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
_THROWN_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_FIRST_INTERVAL_MS = 1_000
_LEAVE_S = 5.0

Assignment = Mapping[bytes, Sequence[int]]
"""Partitions by topic id."""


class ShareMember:
    """What the next heartbeat says, and what its answer means. Pure."""

    def __init__(self, group: str, member_id: str, topics: Sequence[str], rack: str | None = None) -> None:
        self.group = group
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.interval_ms = _FIRST_INTERVAL_MS
        self.assignment: dict[bytes, list[int]] = {}
        self._topics = list(topics)
        self._rack = rack

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        """The next request; the first one subscribes."""
        if self.epoch != JOIN_EPOCH:
            return ShareGroupHeartbeatRequest(self.group, self.member_id, self.epoch)
        return ShareGroupHeartbeatRequest(self.group, self.member_id, JOIN_EPOCH, self._rack, self._topics)

    def answered(self, response: ShareGroupHeartbeatResponse) -> bool:
        """Take an answer; returns whether the assignment changed. Raises `RefusedError` for what does not pass."""
        code = error_code(response.error_code)
        if code in _THROWN_OUT:
            self.epoch = JOIN_EPOCH
            was_assigned, self.assignment = bool(self.assignment), {}
            return was_assigned
        if code is not ErrorCode.NONE:
            raise refused(f"share group {self.group}", code, response.error_message or _hint(code))
        self.epoch = response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms or _FIRST_INTERVAL_MS
        if response.assignment is None:
            return False
        found = {bytes(one.topic_id): sorted(one.partitions) for one in response.assignment.topic_partitions}
        is_changed = found != self.assignment
        self.assignment = found
        return is_changed

    def leave(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(self.group, self.member_id, LEAVE_EPOCH)


class ShareMembership:
    """Sends heartbeats until it is closed; `on_change` sees each new assignment, `on_fault` what cannot be repaired."""

    def __init__(
        self,
        cluster: Cluster,
        member: ShareMember,
        on_change: Callable[[Assignment], object],
        on_fault: Callable[[QanatError], object],
    ) -> None:
        self._cluster = cluster
        self.member = member
        self._on_change = on_change
        self._on_fault = on_fault
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Leave the group, within bounded time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.member.epoch > JOIN_EPOCH:
            deadline = Deadline.after(min(_LEAVE_S, self._cluster.timeout_s))
            with contextlib.suppress(QanatError):
                link = await self._cluster.coordinator_link(self.member.group, deadline)
                await link.call(ApiKey.SHARE_GROUP_HEARTBEAT, self.member.leave(), deadline)

    async def _run(self) -> None:
        while True:
            try:
                response = await self._beat()
                if self.member.answered(response):
                    self._on_change(self.member.assignment)
                pause_s = 0.0 if self.member.epoch == JOIN_EPOCH else self.member.interval_ms / 1000
            except (UnreachableError, OutOfTimeError):
                pause_s = 0.0  # `persist` has paused; the broker's session decides how long that may last.
            except QanatError as fault:
                self._on_fault(fault)
                if not (isinstance(fault, RefusedError) and fault.code in RETRIABLE):
                    return
                pause_s = _FIRST_INTERVAL_MS / 1000
            await asyncio.sleep(pause_s)

    async def _beat(self) -> ShareGroupHeartbeatResponse:
        deadline = self._cluster.deadline()

        async def attempt() -> ShareGroupHeartbeatResponse:
            link = await self._cluster.coordinator_link(self.member.group, deadline)
            response: ShareGroupHeartbeatResponse = await link.call(
                ApiKey.SHARE_GROUP_HEARTBEAT, self.member.heartbeat(), deadline
            )
            if response.error_code in RETRIABLE:
                raise refused(f"share group {self.member.group}", response.error_code, response.error_message)
            return response

        return await self._cluster.persist(attempt, deadline)


def _hint(code: int) -> str | None:
    match code:
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            return "it has as many members as the broker allows"
        case ErrorCode.INVALID_GROUP_ID | ErrorCode.GROUP_ID_NOT_FOUND:
            return "a consumer group has this name: queues need a group of their own"
        case _:
            return None
