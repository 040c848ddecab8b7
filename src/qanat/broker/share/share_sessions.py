"""Share sessions: the partitions that a member of a share group fetches from, so that it names only what changed.

A session belongs to one member on one connection. Its requests are numbered; one out of order is refused and the client
starts a new session. The end of a session releases the member's records: at once where its connection is lost.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from qanat.groups.consumer.records import TopicIdPartition
from qanat.model.error_codes import ErrorCode

FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1


class Member(NamedTuple):
    """The owner of a session."""

    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession:
    """One member's standing request."""

    member: Member
    connection: Hashable
    epoch: int = 1
    """Number of the next request."""
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)

    def in_turn(self) -> list[TopicIdPartition]:
        """All partitions, beginning with another one at every request."""
        rows = list(self.partitions)
        first = self.epoch % len(rows) if rows else 0
        return rows[first:] + rows[:first]


class ShareSessions:
    """All sessions of a broker; bounded in number."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[Member, ShareSession] = {}
        self._of_connection: dict[Hashable, dict[Member, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, member: Member, connection: Hashable, partitions: Iterable[TopicIdPartition]
    ) -> ShareSession | ErrorCode:
        """A new session, in place of the one that the member may have had."""
        self.end(member)
        if len(self._sessions) >= self._max_sessions:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(member, connection, partitions=dict.fromkeys(partitions))
        self._sessions[member] = session
        self._of_connection.setdefault(connection, {})[member] = None
        return session

    def use(self, member: Member, epoch: int) -> ShareSession | ErrorCode:
        """The session of a request, or why there is none; only the final request needs no number."""
        session = self._sessions.get(member)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session

    def find(self, member: Member) -> ShareSession | None:
        """The session of a member, as it is."""
        return self._sessions.get(member)

    def end(self, member: Member) -> None:
        session = self._sessions.pop(member, None)
        if session is not None:
            of_connection = self._of_connection[session.connection]
            del of_connection[member]
            if not of_connection:
                del self._of_connection[session.connection]

    def lose(self, connection: Hashable) -> list[Member]:
        """End the sessions of a connection; returns their members."""
        members = list(self._of_connection.get(connection, ()))
        for member in members:
            self.end(member)
        return members
