"""A shard: every group of one partition of `__consumer_offsets`, deciding without waiting.

How the shell drives it; the rules behind this are in `decisions`:

    shard = GroupShard(settings, topics)
    for batch in the partition:                      # load
        shard.apply(record, batch.producer_id)       # and apply_marker for a control batch
    shard.start(now)

    decision = shard.decide(request, now)            # or tick(now), once next_deadline_ms() has come
    offset = append(decision.records)                # one batch, before the next decision
    await durable(offset)                            # at least everything appended so far
    answer decision.reply unless it is Parked, and every ticket in decision.completed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from qanat.groups.assignors.assignor import Assignor
from qanat.groups.assignors.built_in import built_in
from qanat.groups.classic import rebalance
from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.joining import join
from qanat.groups.classic.membership import leave, sync
from qanat.groups.classic.sessions import heartbeat, on_session_timer
from qanat.groups.classic.view import describe, list_groups
from qanat.groups.committing import commit, commit_in_transaction, delete_offsets, fetch
from qanat.groups.consumer import classic_members, leaving, sessions
from qanat.groups.consumer import view as consumer_view
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.heartbeat import heartbeat as consumer_heartbeat
from qanat.groups.consumer.removal import remove_group
from qanat.groups.decision_builder import DecisionBuilder, ShardState, TopicView
from qanat.groups.decisions import Decision, Parked
from qanat.groups.group_overrides import GroupOverrides
from qanat.groups.ledger import Ledger
from qanat.groups.records import GroupRecord
from qanat.groups.replies import Reply, refused
from qanat.groups.requests import (
    AdministratorRequest,
    ChangeSharedTopics,
    CommitOffsets,
    CommitTransactionOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    DescribeShareGroup,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListSharedTopics,
    Request,
    ShareHeartbeat,
    SyncGroup,
)
from qanat.groups.retention import delete_group, expire, forget_deleted, schedule_next
from qanat.groups.settings import GroupSettings
from qanat.groups.share import removal as share_removal
from qanat.groups.share import sessions as share_sessions
from qanat.groups.share import view as share_view
from qanat.groups.share.heartbeat import heartbeat as share_heartbeat
from qanat.groups.timers import Timer, TimerKind
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_PRODUCER_ID, TopicPartition

LONGEST_GROUP_ID = 8_000
"""Characters: the id must fit a record's key in UTF-8."""


class GroupShard:
    """See the module."""

    __slots__ = ("_is_started", "_state")

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicView,
        assignors: dict[str, Assignor] | None = None,
        group_overrides: Callable[[str], GroupOverrides] | None = None,
        client_sessions_ms: Mapping[str, int] | None = None,
    ) -> None:
        installed = assignors or built_in(settings.assignor_names)
        own = {} if client_sessions_ms is None else client_sessions_ms
        self._state = ShardState(settings, topics, installed, group_overrides=group_overrides, client_sessions_ms=own)
        self._is_started = False

    def __repr__(self) -> str:
        return f"GroupShard({len(self._state.groups)} groups, {len(self._state.timers)} timers)"

    def apply_settings(self, settings: GroupSettings) -> None:
        """Apply changed settings; sessions and rebalances under way keep their deadlines."""
        self._state.settings = settings

    # Loading

    def apply(self, record: GroupRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record from the log; `producer_id` is its batch's where the batch is transactional."""
        assert not self._is_started, "a shard that serves applies its own records"
        self._state.ledger.apply(record, producer_id)

    def apply_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end of a transaction from the log."""
        assert not self._is_started, "a shard that serves learns it by end_transaction"
        self._state.ledger.apply_marker(producer_id, is_commit=is_commit)

    def start(self, now: Now) -> None:
        """The log has been read: every session starts again, and a group that outgrew its limit rebalances."""
        assert not self._is_started
        self._is_started = True
        builder = DecisionBuilder(self._state, now)
        for consumers in self._state.ledger.consumers.values():
            sessions.start(builder, consumers)
        for shares in self._state.ledger.shares.values():
            share_sessions.start(builder, shares)
        for group_id in self._state.ledger.group_ids():
            if group_id in self._state.ledger.consumers or group_id in self._state.ledger.shares:
                continue
            record = self._state.ledger.groups.get(group_id)
            group = self._state.groups[group_id] = ClassicGroup.restored(group_id, record, now.wall_ms)
            for member in group.members.values():
                rebalance.renew_session(builder, group, member)
            if len(group.members) > self._state.settings.group_max_size:
                rebalance.prepare(builder, group)
        schedule_next(builder)
        assert builder.decision() == Decision()

    # Serving

    def decide(self, request: Request, now: Now) -> Decision:
        """Answer a request, or park it."""
        assert self._is_started
        if not _is_valid_group_id(request):
            return Decision(reply=refused(request, ErrorCode.INVALID_GROUP_ID))
        builder = DecisionBuilder(self._state, now)
        return builder.decision(_answer(builder, request))

    def tick(self, now: Now) -> Decision:
        """Handle all expired timers."""
        assert self._is_started
        builder = DecisionBuilder(self._state, now)
        while (timer := self._state.timers.pop_due(now.steady_ms)) is not None:
            self._expire(builder, timer)
        return builder.decision()

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, on the steady clock."""
        return self._state.timers.next_ms()

    def end_transaction(self, producer_id: int, now: Now, *, is_commit: bool) -> Decision:
        """A transaction's marker was appended: its offsets count now, or are dropped."""
        assert self._is_started
        builder = DecisionBuilder(self._state, now)
        self._state.ledger.apply_marker(producer_id, is_commit=is_commit)
        return builder.decision()

    def forget_deleted(
        self, group_id: str, partitions: Sequence[TopicPartition], deleted_ms: int, now: Now
    ) -> Decision:
        """A topic was deleted: so are the offsets that a group has committed in it until then."""
        assert self._is_started
        builder = DecisionBuilder(self._state, now)
        forget_deleted(builder, group_id, partitions, deleted_ms)
        return builder.decision()

    @property
    def ledger(self) -> Ledger:
        """The ledger, durable once every decision so far is; for inspection."""
        return self._state.ledger

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        """The live classic groups; for inspection."""
        return self._state.groups

    def _expire(self, builder: DecisionBuilder, timer: Timer) -> None:
        ledger, group_id = self._state.ledger, timer.group_id
        if timer.kind is TimerKind.RETENTION:
            expire(builder)
        elif group_id in ledger.shares:
            share_removal.on_timer(builder, ledger.shares[group_id], timer.member_id)
        elif group_id in ledger.consumers:
            leaving.on_timer(builder, ledger.consumers[group_id], timer.member_id)
        elif group_id in self._state.groups:
            _expire_classic(builder, self._state.groups[group_id], timer)


def _expire_classic(builder: DecisionBuilder, group: ClassicGroup, timer: Timer) -> None:
    match timer.kind:
        case TimerKind.SESSION:
            on_session_timer(builder, group, timer.member_id)
        case TimerKind.JOIN:
            rebalance.on_join_timer(builder, group)
        case TimerKind.SYNC:
            rebalance.on_sync_timer(builder, group)


def _answer(builder: DecisionBuilder, request: Request) -> Reply | Parked:
    match request:
        case JoinGroup() | SyncGroup() | Heartbeat() | LeaveGroup():
            return _answer_member(builder, request)
        case ConsumerHeartbeat():
            return consumer_heartbeat(builder, request)
        case ShareHeartbeat():
            return share_heartbeat(builder, request)
        case CommitOffsets():
            return commit(builder, request)
        case FetchOffsets():
            return fetch(builder, request)
        case CommitTransactionOffsets():
            return commit_in_transaction(builder, request)
        case _:
            return _answer_administrator(builder, request)


def _answer_administrator(builder: DecisionBuilder, request: AdministratorRequest) -> Reply:
    match request:
        case DescribeGroup():
            return describe(builder, request)
        case DescribeConsumerGroup():
            return consumer_view.describe(builder, request)
        case DescribeShareGroup():
            return share_view.describe(builder, request)
        case ListGroups():
            return list_groups(builder, request)
        case DeleteGroup():
            return delete_group(builder, request)
        case DeleteOffsets():
            return delete_offsets(builder, request)
        case ListSharedTopics():
            return share_view.list_topics(builder, request)
        case ChangeSharedTopics():
            return share_view.change(builder, request)
    assert_never(request)


def _answer_member(builder: DecisionBuilder, request: JoinGroup | SyncGroup | Heartbeat | LeaveGroup) -> Reply | Parked:
    """A request of a classic member to a group of any kind."""
    if isinstance(request, JoinGroup) and request.instance_id == "":
        return refused(request, ErrorCode.INVALID_REQUEST)  # An instance id names a member: it cannot be empty.
    if request.group_id in builder.state.ledger.shares:
        is_join = isinstance(request, JoinGroup)
        return refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_join else ErrorCode.UNKNOWN_MEMBER_ID)
    consumers = builder.state.ledger.consumers.get(request.group_id)
    if consumers is not None and not consumers.members and isinstance(request, JoinGroup):
        # An empty group takes the protocol of its next member.
        remove_group(builder, consumers)
        builder.live_group(request.group_id)
    elif consumers is not None:
        return _answer_among_consumers(builder, consumers, request)
    match request:
        case Heartbeat():
            return heartbeat(builder, request)
        case JoinGroup():
            return join(builder, request)
        case SyncGroup():
            return sync(builder, request)
        case LeaveGroup():
            return leave(builder, request)
    assert_never(request)


def _answer_among_consumers(
    builder: DecisionBuilder, group: ConsumerGroup, request: JoinGroup | SyncGroup | Heartbeat | LeaveGroup
) -> Reply:
    """A request of a classic member to a group of the new protocol."""
    match request:
        case Heartbeat():
            return classic_members.heartbeat(builder, group, request)
        case JoinGroup():
            return classic_members.join(builder, group, request)
        case SyncGroup():
            return classic_members.sync(builder, group, request)
        case LeaveGroup():
            return classic_members.leave(builder, group, request)
    assert_never(request)


def _is_valid_group_id(request: Request) -> bool:
    """Offsets may be stored under the empty id, for very old simple consumers, and be read there.

    Heartbeats of the new protocol and of share groups are checked as a whole (`consumer.requirements`).
    """
    match request:
        case ListGroups() | ConsumerHeartbeat() | ShareHeartbeat():
            return True
        case (
            CommitOffsets()
            | CommitTransactionOffsets()
            | FetchOffsets()
            | DescribeGroup()
            | DescribeConsumerGroup()
            | DeleteGroup()
        ):
            return len(request.group_id) <= LONGEST_GROUP_ID
        case _:
            return 0 < len(request.group_id) <= LONGEST_GROUP_ID
