"""Fetch sessions (KIP-227): a client of many partitions names only what changed since its last fetch.

A session remembers the request and the status last sent for each partition. Its requests are numbered; one out of order
cannot use the session, and the client starts a new one. The number of sessions is bounded: the one unused for longest
goes. A session serves only its owner: who it is is the caller's matter, an equal value is the same owner.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field

from qanat.model.error_codes import ErrorCode

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition as the client names it: topic name up to version 12, topic id after."""

    topic: str
    topic_id: bytes
    partition: int


class PartitionRequest(NamedTuple):
    """A client's request for one partition."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class PartitionStatus(NamedTuple):
    """What a response says of a partition, besides records."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class FetchSession(Struct):
    """One consumer's standing request."""

    session_id: int
    owner: object = None
    epoch: int = 1
    """Number of the next request."""
    partitions: dict[PartitionKey, PartitionRequest] = field(default_factory=dict)
    sent: dict[PartitionKey, PartitionStatus] = field(default_factory=dict)
    allowed_revision: int = -1
    """The revision of the rules that allow every topic of it; -1 where they do not, or nobody has asked."""

    def must_report(self, key: PartitionKey, now: PartitionStatus, *, has_records: bool, has_error: bool) -> bool:
        """Whether an incremental response must name the partition; remembers its status."""
        if has_error:
            self.sent.pop(key, None)
            return True
        is_new = self.sent.get(key) != now
        self.sent[key] = now
        if has_records and key in self.partitions:
            # Partitions with records go to the back, so that all get their turn when the response is full.
            self.partitions[key] = self.partitions.pop(key)
        return has_records or is_new


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, max_sessions: int, draw_id: Callable[[], int]) -> None:
        self._max_sessions = max_sessions
        self._draw_id = draw_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, partitions: dict[PartitionKey, PartitionRequest], owner: object = None) -> FetchSession | None:
        """A new session; None where sessions are disabled."""
        if self._max_sessions == 0:
            return None
        while len(self._sessions) >= self._max_sessions:
            self._sessions.popitem(last=False)
        session_id = self._draw_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._draw_id()
        session = self._sessions[session_id] = FetchSession(session_id, owner, partitions=partitions)
        return session

    def use(
        self,
        session_id: int,
        epoch: int,
        changed: dict[PartitionKey, PartitionRequest],
        forgotten: list[PartitionKey],
        owner: object = None,
    ) -> FetchSession | ErrorCode:
        """The session of an incremental request, updated by it; or why it cannot be used."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        session.partitions.update(changed)
        for key in forgotten:
            session.partitions.pop(key, None)
            session.sent.pop(key, None)
        self._sessions.move_to_end(session_id)
        return session

    def end(self, session_id: int, owner: object = None) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            del self._sessions[session_id]
