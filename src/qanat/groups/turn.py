"""One decision in the making: the shard's state, the time, and what the decision will say.

The rules of groups are functions of a turn; they write records, park and
deliver replies and set timers through it, so that nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from qanat.groups.assignors.assignor import Assignor
from qanat.groups.classic.group import ClassicGroup
from qanat.groups.decisions import Completed, Decision, Parked, TransactionalProducer
from qanat.groups.ledger import Ledger
from qanat.groups.own_settings import OwnSettings
from qanat.groups.records import GroupRecord, GroupTombstone
from qanat.groups.replies import Reply
from qanat.groups.requests import Sight
from qanat.groups.settings import GroupSettings
from qanat.groups.timers import Timer, TimerKind
from qanat.model.clock import Now
from qanat.model.ids import NO_PRODUCER_ID
from qanat.model.timers import Timers


class TopicView(Protocol):
    """What groups must know of topics."""

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
    """Everything that a shard holds."""

    settings: GroupSettings
    topics: TopicView
    assignors: dict[str, Assignor]
    """By name, the default first."""
    ledger: Ledger = field(default_factory=Ledger)
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    """Live classic groups: those of the ledger, and those that are about to be in it."""
    seen_revisions: dict[str, int] = field(default_factory=dict)
    """In which revision a group of the new protocol last looked at its topics."""
    sights: dict[tuple[str, str], Sight] = field(default_factory=dict)
    """Which topics members may see, by group and member, as their last heartbeats said."""
    is_authorized: bool = False
    """Whether members may see different topics; then, who has not been heard since the load sees nothing new."""
    matches: tuple[int, dict[str, tuple[str, ...]]] = field(default_factory=lambda: (-1, {}))
    """What expressions stand for in one revision."""
    own_settings: Callable[[str], OwnSettings] | None = None
    """Settings of single groups, by their ids; None where nothing can be set for them."""
    client_sessions_ms: Mapping[str, int] = field(default_factory=dict)
    """How long members of the new protocol may be silent whose client has a session of its own, by client id."""
    timers: Timers[Timer] = field(default_factory=Timers)
    tickets: int = 0


class Turn:
    """What one request, or one moment, leads to."""

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
        """Write as part of the producer's transaction; a turn serves one transaction or none."""
        assert self._producer == producer if self._records else self._producer is None
        self._producer = producer
        self._records.append(record)
        assert producer.producer_id != NO_PRODUCER_ID
        self.state.ledger.apply(record, producer.producer_id)

    def own_settings(self, group_id: str) -> OwnSettings:
        """What holds for one group: what was set for it, and else what holds for all."""
        look_up = self.state.own_settings
        return OwnSettings.like(self.state.settings) if look_up is None else look_up(group_id)

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
        """The group; a new, empty one where there was none. It is durable once something is written about it."""
        group = self.state.groups.get(group_id)
        if group is None:
            group = self.state.groups[group_id] = ClassicGroup(group_id, self.now.wall_ms)
        return group

    def delete_group(self, group: ClassicGroup) -> None:
        """Forget an empty group whose offsets are gone, and let the log know."""
        assert not group.members, group
        for member_id in group.pending_members:
            self.cancel(TimerKind.SESSION, group, member_id)
        group.bury(self.now.wall_ms)
        del self.state.groups[group.group_id]
        self.write(GroupTombstone(group.group_id))

    def decision(self, reply: Reply | Parked | None = None) -> Decision:
        """Close the turn; who was parked and answered in the same turn is simply answered."""
        completed = self._completed
        if isinstance(reply, Parked):
            own = [one for one in completed if one.ticket == reply.ticket]
            if own:
                completed = [one for one in completed if one.ticket != reply.ticket]
                reply = own[0].reply
        return Decision(tuple(self._records), reply, tuple(completed), self._producer)
