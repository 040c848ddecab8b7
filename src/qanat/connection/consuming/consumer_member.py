"""One member of a consumer group in the protocol of KIP-848, as a value without I/O.

The coordinator assigns; the member reports in heartbeats what it owns. A difference between the two is a
reconciliation: revoke, report, assign, report. `consumer_membership` sends the heartbeats and calls the listener.

Rule 1: a request names a field only where the coordinator does not know it yet; after any failure it names all.
Rule 2: a partition is owned from before its listener is called until after its revocation has ended.
Rule 3: one reconciliation at a time; a newer target waits for the end of the current one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from enum import Enum, auto

import msgspec

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

IdPartition = tuple[bytes, int]
"""A topic's id and a partition's number."""

_LEAVING = -1
_LEAVING_FOR_A_WHILE = -2
"""Epoch of a static member that leaves: its partitions wait for it until the session timeout."""
_FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_LATER = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)


class Verdict(Enum):
    """What an answer means."""

    MEMBER = auto()
    LATER = auto()
    """The same again after a pause, perhaps from another coordinator."""
    FENCED = auto()
    """Everything is lost; the next request joins anew."""
    REFUSED = auto()
    """The group does not want this member, and will not."""


class Reconciliation(msgspec.Struct, frozen=True):
    """Partitions to give back, then partitions to begin with."""

    revoked: tuple[IdPartition, ...]
    added: tuple[IdPartition, ...]


class ConsumerMember:
    """The member's side of the protocol."""

    def __init__(
        self,
        group: str,
        topics: Sequence[str],
        member_id: str,
        *,
        rebalance_timeout_ms: int,
        instance_id: str | None = None,
        rack_id: str | None = None,
        assignor: str | None = None,
        pattern: str | None = None,
    ) -> None:
        """`pattern` subscribes to all topics that match it (RE2), besides the named ones."""
        self.group = group
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.interval_ms = 0
        self.owned: frozenset[IdPartition] = frozenset()
        self.target: frozenset[IdPartition] = frozenset()
        self._topics = sorted(topics)
        self._pattern = pattern
        self._rack_id = rack_id
        self._assignor = assignor
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._current: Reconciliation | None = None
        self._is_known = False
        self._known_owned: frozenset[IdPartition] = frozenset()
        self._known_topics: list[str] = []
        self._is_acknowledged = True
        """Whether the coordinator knows what we own since its latest assignment, even where nothing changed by it:
        it may have meant partitions for us that we never took."""

    @property
    def has_news(self) -> bool:
        """Whether the coordinator should hear from us before the next heartbeat is due."""
        return not self._is_known or self._has_to_report_owned or self._topics != self._known_topics

    @property
    def _has_to_report_owned(self) -> bool:
        return self.owned != self._known_owned or (not self._is_acknowledged and self.owned == self.target)

    @property
    def is_reconciling(self) -> bool:
        return self._current is not None

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics instead; the next heartbeat says so."""
        self._topics = sorted(topics)

    # Requests and answers

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat."""
        is_new = not self._is_known
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch, self.instance_id)
        if is_new:
            request.rack_id = self._rack_id
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.server_assignor = self._assignor
            request.subscribed_topic_regex = self._pattern
        if is_new or self._topics != self._known_topics:
            request.subscribed_topic_names = list(self._topics)
        if is_new or self._has_to_report_owned:
            request.topic_partitions = _by_topic(self.owned)
        return request

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat. A static member's place waits for it."""
        epoch = _LEAVING if self.instance_id is None else _LEAVING_FOR_A_WHILE
        return ConsumerGroupHeartbeatRequest(self.group, self.member_id, epoch, self.instance_id)

    def answered(self, sent: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> Verdict:
        """Take an answer to the latest request. After `FENCED`, call `fence`."""
        code = response.error_code
        if code == ErrorCode.NONE:
            self._accept(sent, response)
            return Verdict.MEMBER
        if code in _FENCED:
            return Verdict.FENCED
        self.failed()
        return Verdict.LATER if code in _LATER else Verdict.REFUSED

    def failed(self) -> None:
        """No answer, or none that helps: what the coordinator knows is unknown."""
        self._is_known = False

    def fence(self) -> tuple[IdPartition, ...]:
        """Begin anew; returns the partitions that are lost."""
        lost = tuple(sorted(self.owned))
        self.owned = self.target = frozenset()
        self.epoch = 0
        self._current = None
        self._is_known = False
        self._is_acknowledged = True
        return lost

    def _accept(self, sent: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> None:
        self._is_known = True
        if sent.topic_partitions is not None:
            self._known_owned = frozenset(
                (one.topic_id, number) for one in sent.topic_partitions for number in one.partitions
            )
            self._is_acknowledged = self._is_acknowledged or self._known_owned == self.target
        if sent.subscribed_topic_names is not None:
            self._known_topics = sent.subscribed_topic_names
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            given = response.assignment.topic_partitions
            target = frozenset((one.topic_id, number) for one in given for number in one.partitions)
            self._is_acknowledged = self._is_acknowledged and target == self.target
            self.target = target

    # Reconciliation

    def begin(self, known_topics: Container[bytes]) -> Reconciliation | None:
        """The next reconciliation, of partitions whose topics are known; None where there is nothing to do."""
        if self._current is not None:
            return None
        revoked = tuple(sorted(self.owned - self.target))
        added = tuple(sorted(one for one in self.target - self.owned if one[0] in known_topics))
        if not revoked and not added:
            return None
        self._current = Reconciliation(revoked, added)
        return self._current

    def revoked(self, change: Reconciliation) -> None:
        """The listener has given back what the change revokes."""
        if change is self._current:
            self.owned -= frozenset(change.revoked)

    def own(self, change: Reconciliation) -> tuple[IdPartition, ...]:
        """Own what the change adds and the coordinator still wants us to have; the listener hears of it next."""
        if change is not self._current:
            return ()
        added = tuple(one for one in change.added if one in self.target)
        self.owned |= frozenset(added)
        return added

    def finish(self, change: Reconciliation) -> None:
        """The listener has taken what the change adds."""
        if change is self._current:
            self._current = None

    def unknown_topics(self, known: Container[bytes]) -> set[bytes]:
        """Ids in the target whose names must be looked up."""
        return {topic_id for topic_id, _ in self.target if topic_id not in known}


def _by_topic(partitions: Iterable[IdPartition]) -> list[RequestTopicPartitions]:
    numbers: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    return [RequestTopicPartitions(topic_id, some) for topic_id, some in numbers.items()]
