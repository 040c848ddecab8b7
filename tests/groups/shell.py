"""The smallest shell around a shard: appends, waits for durability, releases replies, crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from qanat.groups.decisions import Decision, Parked
from qanat.groups.group_overrides import GroupOverrides
from qanat.groups.ledger import Ledger
from qanat.groups.record_codec import decode_record, encode_record
from qanat.groups.records import GroupRecord
from qanat.groups.replies import JoinReply, Reply, SyncReply, refused
from qanat.groups.requests import JoinGroup, Protocol, Request, SyncGroup
from qanat.groups.settings import GroupSettings
from qanat.groups.shard import GroupShard
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode

WALL = 1_700_000_000_000
"""Where the wall clock stands when the steady one stands at 0."""
SECOND = 1_000
DAY = 24 * 60 * 60 * SECOND

R = TypeVar("R")


class Topics:
    """Partition counts by topic; everything else does not exist. A topic that is made anew has another id."""

    def __init__(self, **counts: int) -> None:
        self.counts: dict[str, int] = {}
        self._ids: dict[str, bytes] = {}
        self.revision = 0
        for topic, count in (counts or {"orders": 8, "payments": 8}).items():
            self.make(topic, count)

    def make(self, topic: str, count: int) -> None:
        self.revision += 1
        self.counts[topic] = count
        self._ids.setdefault(topic, self.revision.to_bytes(16, "big"))

    def delete(self, topic: str) -> None:
        self.revision += 1
        del self.counts[topic], self._ids[topic]

    def partition_count(self, topic: str) -> int | None:
        return self.counts.get(topic)

    def topic_id(self, topic: str) -> bytes | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, one in self._ids.items() if one == topic_id), None)

    def names(self) -> list[str]:
        return list(self.counts)


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


RANGE = Protocol("range", subscription("orders"))
STICKY = Protocol("sticky", subscription("orders"))


@dataclass
class Call:
    """A request on its way: `replies` has its answer once it is released, and never a second one."""

    request: Request
    replies: list[Reply] = field(default_factory=list)

    @property
    def is_answered(self) -> bool:
        return bool(self.replies)

    def reply(self, kind: type[R]) -> R:
        assert len(self.replies) == 1, f"{self.request} has {len(self.replies)} replies"
        reply = self.replies[0]
        assert isinstance(reply, kind)
        return reply


class Entry(NamedTuple):
    """A record's bytes in the log, with the producer of a transactional batch."""

    key: bytes
    value: bytes | None
    producer_id: int = -1


class Marker(NamedTuple):
    """The end of a transaction in the log."""

    producer_id: int
    is_commit: bool


class _Appended(NamedTuple):
    call: Call | None
    decision: Decision


class Shell:
    """Runs one shard; with `is_slow`, appends become durable only in `flush`."""

    def __init__(self, settings: GroupSettings | None = None, *, is_slow: bool = False) -> None:
        self.settings = settings or GroupSettings(group_initial_rebalance_delay_ms=0)
        self.topics = Topics()
        self.is_slow = is_slow
        self.group_overrides: Callable[[str], GroupOverrides] | None = None
        """Of single groups; counts from the next load on."""
        self.steady_ms = 0
        self.wall_ms = WALL
        self.log: list[Entry | Marker] = []
        self.durable = 0
        self.names = 0
        self.client_sessions_ms: dict[str, int] = {}
        self.load()

    @property
    def now(self) -> Now:
        return Now(self.steady_ms, self.wall_ms)

    # The log

    def load(self) -> None:
        """A new shard from the durable part of the log, as after a crash or a failed append."""
        del self.log[self.durable :]
        self._unreleased: list[_Appended] = []
        self._parked: dict[int, Call] = {}
        self.shard = self._loaded()
        self.shard.start(self.now)

    def _loaded(self) -> GroupShard:
        shard = GroupShard(
            self.settings, self.topics, group_overrides=self.group_overrides, client_sessions_ms=self.client_sessions_ms
        )
        for entry in self.log:
            if isinstance(entry, Marker):
                shard.apply_marker(entry.producer_id, is_commit=entry.is_commit)
                continue
            record = decode_record(entry.key, entry.value)
            assert record is not None
            shard.apply(record, entry.producer_id)
        return shard

    def crash(self) -> None:
        """What is not durable is lost, and no request gets an answer."""
        self.load()

    def fail_append(self, error: ErrorCode) -> None:
        """The records cannot be made durable: everybody who waits is refused, and the shard is loaded again."""
        waiting = [one.call for one in self._unreleased if one.call and not one.call.is_answered]
        waiting += [call for call in self._parked.values() if all(call is not one for one in waiting)]
        self.load()
        for call in waiting:
            call.replies.append(refused(call.request, error))

    def replayed(self) -> Ledger:
        """The ledger that all records in the log, durable or not, amount to."""
        return self._loaded().ledger

    @property
    def records(self) -> list[GroupRecord]:
        """What was written so far."""
        entries = [entry for entry in self.log if isinstance(entry, Entry)]
        return [record for entry in entries if (record := decode_record(entry.key, entry.value)) is not None]

    # Requests and time

    def send(self, request: Request) -> Call:
        call = Call(request)
        self._append(call, self.shard.decide(request, self.now))
        return call

    def ask(self, request: Request, kind: type[R]) -> R:
        """Send what is answered at once."""
        return self.send(request).reply(kind)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.log.append(Marker(producer_id, is_commit))
        self._append(None, self.shard.end_transaction(producer_id, self.now, is_commit=is_commit))

    def advance(self, duration_ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.steady_ms + duration_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self._move_to(max(deadline_ms, self.steady_ms))
            self._append(None, self.shard.tick(self.now))
        self._move_to(end_ms)

    def flush(self) -> None:
        """Everything appended is durable now: release the answers, in order."""
        self.durable = len(self.log)
        for call, decision in self._unreleased:
            if call is not None and not isinstance(decision.reply, Parked):
                assert decision.reply is not None
                call.replies.append(decision.reply)
            for ticket, reply in decision.completed:
                self._parked.pop(ticket).replies.append(reply)
        self._unreleased = []

    def _append(self, call: Call | None, decision: Decision) -> None:
        producer_id = decision.producer.producer_id if decision.producer else -1
        self.log += [Entry(*encode_record(record), producer_id) for record in decision.records]
        if isinstance(decision.reply, Parked):
            assert call is not None
            assert decision.reply.ticket not in self._parked
            self._parked[decision.reply.ticket] = call
        self._unreleased.append(_Appended(call, decision))
        if not self.is_slow:
            self.flush()

    def _move_to(self, steady_ms: int) -> None:
        self.wall_ms += steady_ms - self.steady_ms
        self.steady_ms = steady_ms

    @property
    def waiting_tickets(self) -> list[int]:
        """Parked requests that no decision has answered yet."""
        decided = {one.ticket for appended in self._unreleased for one in appended.decision.completed}
        return [ticket for ticket in self._parked if ticket not in decided]

    # Members, in the words of a client

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        client_id: str = "c",
        instance_id: str | None = None,
        protocols: tuple[Protocol, ...] = (RANGE,),
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10 * SECOND,
        rebalance_timeout_ms: int = 60 * SECOND,
        needs_member_id: bool = False,
        may_skip_assignment: bool = True,
    ) -> Call:
        self.names += 1
        return self.send(
            JoinGroup(
                group_id,
                member_id,
                protocol_type,
                protocols,
                session_timeout_ms,
                rebalance_timeout_ms,
                str(self.names),
                client_id,
                "/127.0.0.1",
                instance_id,
                needs_member_id,
                may_skip_assignment,
            )
        )

    def stable(self, count: int = 1, *, instance_ids: tuple[str, ...] = (), group_id: str = "g") -> list[JoinReply]:
        """Bring a new group with so many members to its first generation; the leader comes first."""
        joins = [
            self.join(group_id=group_id, instance_id=instance_ids[number] if instance_ids else None)
            for number in range(count)
        ]
        self.advance(self.settings.group_initial_rebalance_delay_ms * 2)
        replies = [join.reply(JoinReply) for join in joins]
        self.sync_all(replies, group_id=group_id)
        return replies

    def sync_all(self, members: list[JoinReply], *, group_id: str = "g") -> list[SyncReply]:
        """Sync everybody, the leader last; each is assigned its own id."""
        ordered = sorted(members, key=lambda one: one.member_id == one.leader_id)
        calls = {
            one.member_id: self.send(
                SyncGroup(
                    group_id,
                    one.member_id,
                    one.generation_id,
                    assignments=tuple((member.member_id, member.member_id.encode()) for member in one.members),
                )
            )
            for one in ordered
        }
        return [calls[one.member_id].reply(SyncReply) for one in members]
