"""Builds one decision: the shard's state, the time, and the decision so far.

The rules of groups are functions of a builder; they write records, park and
deliver replies and set timers through it, so that nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from qanat.groups.assignors.assignor import Assignor
from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.states import GroupState
from qanat.groups.decisions import Completed, Decision, Parked, TransactionalProducer
from qanat.groups.group_overrides import GroupOverrides
from qanat.groups.ledger import Ledger
from qanat.groups.records import GroupRecord, GroupTombstone
from qanat.groups.replies import Reply
from qanat.groups.requests import TopicVisibility
from qanat.groups.settings import GroupSettings
from qanat.groups.timers import Timer, TimerKind
from qanat.model.clock import Now
from qanat.model.ids import NO_PRODUCER_ID
from qanat.model.timers import Timers


class TopicView(Protocol):
    """The part of the topics' metadata that groups need."""

    def partition_count(self, topic: str) -> int | None:
        """How many partitions the topic has; None where there is no such topic."""

    @property
    def revision(self) -> int:
        """A number that changes whenever a topic does."""

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id; None where there is no such topic."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id; None where there is none."""

    def names(self) -> Iterable[str]:
        """Every topic but the internal ones."""


@dataclass(slots=True)
class ShardState:
    """The whole state of a shard."""

    settings: GroupSettings
    topics: TopicView
    assignors: dict[str, Assignor]
    """By name, the default first."""
    ledger: Ledger = field(default_factory=Ledger)
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    """Live classic groups: those of the ledger, and those that are about to be in it."""
    seen_revisions: dict[str, int] = field(default_factory=dict)
    """The revision in which a group of the new protocol last resolved its topics."""
    visibilities: dict[tuple[str, str], TopicVisibility] = field(default_factory=dict)
    """The topics that members may see, by group and member, from their last heartbeats."""
    is_authorized: bool = False
    """Whether members may see different topics; then a member without a heartbeat since the load sees nothing new."""
    matches: tuple[int, dict[str, tuple[str, ...]]] = field(default_factory=lambda: (-1, {}))
    """The topics of expressions in one revision."""
    group_overrides: Callable[[str], GroupOverrides] | None = None
    """Settings of single groups, by their ids; None where there are none."""
    client_sessions_ms: Mapping[str, int] = field(default_factory=dict)
    """Session timeouts of members of the new protocol whose client has one of its own, by client id."""
    timers: Timers[Timer] = field(default_factory=Timers)
    tickets: int = 0


class DecisionBuilder:
    """Collects the effects of one request, or of one tick."""

    __slots__ = ("_completed", "_producer", "_records", "now", "state")

    def __init__(self, state: ShardState, now: Now) -> None:
        self.state = state
        self.now = now
        self._records: list[GroupRecord] = []
        self._completed: list[Completed] = []
        self._producer: TransactionalProducer | None = None

    def write(self, record: GroupRecord) -> None:
        self._records.append(record)
        self.state.ledger.apply(record)

    def write_in_transaction(self, record: GroupRecord, producer: TransactionalProducer) -> None:
        """Write as part of the producer's transaction; a decision has one transaction or none."""
        assert self._producer == producer if self._records else self._producer is None
        self._producer = producer
        self._records.append(record)
        assert producer.producer_id != NO_PRODUCER_ID
        self.state.ledger.apply(record, producer.producer_id)

    def group_overrides(self, group_id: str) -> GroupOverrides:
        """The settings of one group: its own, and else those of all groups."""
        look_up = self.state.group_overrides
        return GroupOverrides.like(self.state.settings) if look_up is None else look_up(group_id)

    def park(self) -> Parked:
        self.state.tickets += 1
        return Parked(self.state.tickets)

    def deliver(self, ticket: int, reply: Reply) -> None:
        self._completed.append(Completed(ticket, reply))

    def schedule(self, kind: TimerKind, group: ClassicGroup, delay_ms: int, member_id: str = "") -> None:
        self.state.timers.schedule(Timer(kind, group.group_id, member_id), self.now.steady_ms + delay_ms)

    def cancel(self, kind: TimerKind, group: ClassicGroup, member_id: str = "") -> None:
        self.state.timers.cancel(Timer(kind, group.group_id, member_id))

    def live_group(self, group_id: str) -> ClassicGroup:
        """The group; a new, empty one where there was none. It is durable once a record of it is written."""
        group = self.state.groups.get(group_id)
        if group is None:
            group = self.state.groups[group_id] = ClassicGroup(group_id, self.now.wall_ms)
        return group

    def delete_group(self, group: ClassicGroup) -> None:
        """Remove an empty group without offsets, and write its tombstone."""
        assert group.state is GroupState.EMPTY, group
        for member_id in group.pending_members:
            self.cancel(TimerKind.SESSION, group, member_id)
        del self.state.groups[group.group_id]
        self.write(GroupTombstone(group.group_id))

    def decision(self, reply: Reply | Parked | None = None) -> Decision:
        """The decision; a request that was parked and answered in it is simply answered."""
        completed = self._completed
        if isinstance(reply, Parked):
            own = [one for one in completed if one.ticket == reply.ticket]
            if own:
                completed = [one for one in completed if one.ticket != reply.ticket]
                reply = own[0].reply
        return Decision(tuple(self._records), reply, tuple(completed), self._producer)
