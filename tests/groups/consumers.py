"""Simulated members of groups of the new protocol: their assignments, and what they still read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.groups.shell import Call, Shell

from qanat.groups.consumer.embedded import read_assignment
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.replies import AssignmentReply, HeartbeatReply, JoinReply, Reply, SyncReply
from qanat.groups.requests import ConsumerHeartbeat, Heartbeat, Protocol, SyncGroup
from qanat.model.error_codes import ErrorCode

GROUP = "g"
REBALANCE_MS = 60_000
ABANDON = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


def beat(member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeat:
    """A heartbeat that says nothing but what is in `fields`."""
    return ConsumerHeartbeat(GROUP, member_id, epoch, "drawn", client_id="c", client_host="/127.0.0.1", **fields)


def join(member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeat:
    """The first heartbeat, with everything in it."""
    settings = {"rebalance_timeout_ms": REBALANCE_MS, "owned": (), "topics": topics or ("orders",), **fields}
    return beat(member_id, 0, **settings)


def group_of(shell: Shell) -> ConsumerGroup:
    return shell.shard.ledger.consumers[GROUP]


def numbers(partitions: Iterable[TopicIdPartition] | None) -> list[int]:
    """Partition numbers, where one topic is all that matters."""
    assert partitions is not None
    return sorted(at.partition for at in partitions)


class Consumer:
    """A member of the new protocol. It revokes when it is asked to (`let_go`), and then reads its new partitions."""

    def __init__(self, member_id: str, *topics: str, instance_id: str | None = None, expression: str = "") -> None:
        self.member_id = member_id
        self.topics = topics
        self.instance_id = instance_id
        self.expression = expression
        self.epoch = 0
        self.told: Partitions = ()
        self.reads: dict[TopicIdPartition, None] = {}

    def __repr__(self) -> str:
        return f"Consumer({self.member_id}, epoch {self.epoch}, reads {numbers(self.reads)})"

    def next_beat(self, *, is_full: bool = True) -> ConsumerHeartbeat:
        if self.epoch == 0 or is_full:
            owned = () if self.epoch == 0 else tuple(self.reads)
            return beat(
                self.member_id,
                self.epoch,
                instance_id=self.instance_id,
                rebalance_timeout_ms=REBALANCE_MS,
                topics=self.topics,
                expression=self.expression,
                owned=owned,
            )
        return beat(self.member_id, self.epoch, instance_id=self.instance_id)

    def hear(self, reply: Reply) -> None:
        assert isinstance(reply, AssignmentReply)
        if reply.error in ABANDON or reply.error is ErrorCode.FENCED_INSTANCE_ID:
            self.forget()
        if reply.error is not ErrorCode.NONE or reply.member_epoch < 0:
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.told = reply.assignment
            if all(at in self.told for at in self.reads):
                self.let_go()

    def let_go(self) -> None:
        """Complete the revocation: from now on it reads its new assignment."""
        self.reads = dict.fromkeys(self.told)

    def forget(self) -> None:
        self.epoch, self.told, self.reads = 0, (), {}


class ClassicConsumer:
    """A member that uses the classic protocol and revokes everything before it joins."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.member_id = ""
        self.generation_id = -1
        self.joined: JoinReply | None = None
        self.is_synced = False
        self.reads: dict[TopicIdPartition, None] = {}

    def __repr__(self) -> str:
        return f"ClassicConsumer({self.member_id}, generation {self.generation_id}, reads {numbers(self.reads)})"

    def act(self, shell: Shell) -> Call:
        """Whatever comes next: join, sync, or a heartbeat."""
        if self.joined is None:
            self.reads = {}
            return shell.join(self.member_id, protocols=(self.protocol,))
        if not self.is_synced:
            assignments = dealt(shell, [member.member_id for member in self.joined.members])
            request = SyncGroup(GROUP, self.member_id, self.generation_id, assignments=assignments)
            return shell.send(request)
        return shell.send(Heartbeat(GROUP, self.member_id, self.generation_id))

    def hear(self, reply: Reply, shell: Shell) -> None:
        error = getattr(reply, "error", ErrorCode.NONE)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.__init__(self.protocol)  # type: ignore[misc]
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.joined, self.is_synced, self.reads = None, False, {}
        elif isinstance(reply, JoinReply) and error is ErrorCode.NONE:
            self.joined, self.member_id, self.generation_id = reply, reply.member_id, reply.generation_id
        elif isinstance(reply, SyncReply):
            self.is_synced = True
            self.reads = dict.fromkeys(read_assignment(reply.assignment, shell.topics) or ())
        else:
            assert isinstance(reply, HeartbeatReply | JoinReply), reply


def dealt(shell: Shell, member_ids: list[str]) -> tuple[tuple[str, bytes], ...]:
    """What a leader assigns: the partitions of `orders`, in turn."""
    from qanat.groups.consumer.embedded import write_assignment

    topic_id = shell.topics.topic_id("orders")
    if topic_id is None or not member_ids:
        return tuple((member_id, b"") for member_id in member_ids)
    rows: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in member_ids}
    for number in range(shell.topics.counts["orders"]):
        rows[member_ids[number % len(member_ids)]].append(TopicIdPartition(topic_id, number))
    return tuple((member_id, write_assignment(tuple(row), shell.topics, 1)) for member_id, row in rows.items())
