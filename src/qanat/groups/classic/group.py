"""A live classic group: its members, their parked requests, its leader and its protocols.

Bookkeeping only: every method keeps the counts right and none decides what
happens next (`rebalance`, `joining`, `membership`).
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.groups.classic.states import PREDECESSORS, GroupState
from qanat.groups.classic.subscription import CONSUMER, subscribed_topics
from qanat.groups.records import GroupMetadataRecord, MemberMetadata
from qanat.groups.requests import Protocol
from qanat.model.ids import NO_TIMESTAMP


class Member:
    """A member: its requests, its assignment, and its parked replies."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(self, member_id: str, instance_id: str | None, client_id: str, client_host: str) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.protocols: tuple[Protocol, ...] = ()
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.assignment = b""
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None
        self.is_new = False
        """In its first rebalance: it may be removed while it waits."""

    def __repr__(self) -> str:
        waits = "joining" if self.join_ticket is not None else "syncing" if self.sync_ticket is not None else "quiet"
        return f"Member({self.member_id}, {waits})"

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((one.metadata for one in self.protocols if one.name == protocol_name), b"")


class ClassicGroup:
    """One group; see the module."""

    __slots__ = (
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "has_new_member",
        "initial_delay_left_ms",
        "leader_id",
        "members",
        "pending_members",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supporters",
    )

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id (KIP-345)."""
        self.pending_members: dict[str, None] = {}
        """Ids that were handed out and have not joined yet (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        """Members of the new generation that have not synced yet."""
        self.supporters: dict[str, int] = {}
        """How many members support each protocol."""
        self.awaiting_join_count = 0
        self.has_new_member = False
        """Whether a member joined during the initial delay, which is then prolonged."""
        self.initial_delay_left_ms: int | None = None
        self.subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id}, {self.state}, generation {self.generation_id}, {len(self.members)} members)"
        )

    @staticmethod
    def restored(group_id: str, record: GroupMetadataRecord | None, wall_ms: int) -> ClassicGroup:
        """The group as its last record left it; one that only has offsets is empty and has no type."""
        group = ClassicGroup(group_id, wall_ms)
        if record is None:
            return group
        group.state_timestamp_ms = record.state_timestamp_ms
        group.generation_id = record.generation_id
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol_name
        for metadata in record.members:
            if metadata.member_id not in group.members and metadata.instance_id not in group.static_members:
                group.add(_restored_member(metadata, record.protocol_name or ""), record.protocol_type)
        group.leader_id = record.leader_id if record.leader_id in group.members else next(iter(group.members), None)
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.update_subscribed_topics()
        return group

    def become(self, state: GroupState, wall_ms: int) -> None:
        assert self.state in PREDECESSORS[state], f"{self} cannot become {state}"
        self.state, self.state_timestamp_ms = state, wall_ms

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        assert member.member_id not in self.members, member
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, member
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)
        self._count_protocols(member, 1)

    def remove(self, member: Member) -> None:
        """Remove a member; its parked requests must have been answered (`rebalance.release`)."""
        assert (member.join_ticket, member.sync_ticket) == (None, None), member
        del self.members[member.member_id]
        self.pending_syncs.pop(member.member_id, None)
        self._count_protocols(member, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member's place to its successor, under a new id."""
        assert member.instance_id is not None
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.instance_id] = member_id
        if old_id in self.pending_syncs:
            del self.pending_syncs[old_id]
            self.pending_syncs[member_id] = None
        if self.leader_id == old_id:
            self.leader_id = member_id

    def update(self, member: Member, protocols: tuple[Protocol, ...], session_ms: int, rebalance_ms: int) -> None:
        """Take a member's new protocols and timeouts."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.session_timeout_ms = session_ms
        member.rebalance_timeout_ms = rebalance_ms

    def await_join(self, member: Member, ticket: int) -> None:
        assert member.join_ticket is None, member
        member.join_ticket = ticket
        self.awaiting_join_count += 1

    def take_join_ticket(self, member: Member) -> int | None:
        ticket, member.join_ticket = member.join_ticket, None
        if ticket is not None:
            self.awaiting_join_count -= 1
        return ticket

    # Questions

    @property
    def have_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers with an unreadable subscription may read anything."""
        if self.subscribed_topics is None:
            return self.is_consumer_group
        return topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member with these protocols could be in a generation with all others."""
        if self.state is GroupState.EMPTY:
            return protocol_type != "" and protocols != ()
        member_count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supporters.get(one.name, 0) == member_count for one in protocols
        )

    # A generation

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined; False where no member has."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.join_ticket is None:
            joined = (member.member_id for member in self.members.values() if member.join_ticket is not None)
            leader_id = next(joined, None)
            if leader_id is None:
                return False
            self.leader_id = leader_id
        return True

    def start_generation(self, wall_ms: int) -> None:
        """End the join phase with the current members."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.pending_syncs = dict.fromkeys(self.members)
        self.update_subscribed_topics()
        self.become(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall_ms)

    def select_protocol(self) -> str:
        """Of the protocols that all members support, the one with the most votes; the oldest member breaks ties."""
        member_count = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(one.name for one in member.protocols if self.supporters[one.name] == member_count)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def update_subscribed_topics(self) -> None:
        readable = self.is_consumer_group and (self.protocol_name is not None or not self.members)
        subscriptions = (member.metadata(self.protocol_name) for member in self.members.values())
        self.subscribed_topics = subscribed_topics(subscriptions) if readable else None

    def as_record(self) -> GroupMetadataRecord:
        return GroupMetadataRecord(
            self.group_id,
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            self.state_timestamp_ms,
            tuple(_metadata(member, self.protocol_name) for member in self.members.values()),
        )

    def _count_protocols(self, member: Member, difference: int) -> None:
        for name in _distinct(one.name for one in member.protocols):
            count = self.supporters.get(name, 0) + difference
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _metadata(member: Member, protocol_name: str | None) -> MemberMetadata:
    return MemberMetadata(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol_name),
        member.assignment,
    )


def _restored_member(metadata: MemberMetadata, protocol_name: str) -> Member:
    """Only the chosen protocol is in the record: the member sends the others when it rejoins."""
    member = Member(metadata.member_id, metadata.instance_id, metadata.client_id, metadata.client_host)
    member.protocols = (Protocol(protocol_name, metadata.subscription),)
    member.session_timeout_ms = metadata.session_timeout_ms
    rebalance_ms = metadata.rebalance_timeout_ms
    member.rebalance_timeout_ms = metadata.session_timeout_ms if rebalance_ms == NO_TIMESTAMP else rebalance_ms
    member.assignment = metadata.assignment
    return member
