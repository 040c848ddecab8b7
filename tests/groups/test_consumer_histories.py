"""Random histories of a group of the new protocol: members, classic ones among them, lost answers, topics, crashes."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.groups.consumers import GROUP, ClassicConsumer, Consumer, beat
from tests.groups.shell import SECOND, Call, Shell, subscription

from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from qanat.groups.consumer.records import MemberState, TopicIdPartition
from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import LeaveGroup, LeavingMember, Protocol
from qanat.groups.settings import GroupSettings
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode

SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_max_size=6, group_max_size=6)
CLASSIC = Protocol("range", subscription("orders"))
WHO = st.integers(0, 4)
CLASSIC_WHO = st.integers(0, 1)


class ConsumerHistories(RuleBasedStateMachine):
    """One group, five members of the new protocol, two of the classic one."""

    seen: ClassVar[Counter[str]] = Counter()

    @initialize(is_slow=st.booleans())
    def begin(self, is_slow: bool) -> None:
        self.shell = Shell(SETTINGS, is_slow=is_slow)
        self.shell.topics.make("orders", 5)
        self.consumers = [
            Consumer("a", "orders"),
            Consumer("b", "orders", "payments"),
            Consumer("c", "orders"),
            Consumer("d", "orders", instance_id="static"),
            Consumer("e", expression="or.*|pay.*"),
        ]
        self.classics = [ClassicConsumer(CLASSIC), ClassicConsumer(CLASSIC)]
        self.calls: list[tuple[Consumer | ClassicConsumer, Call]] = []
        self.last: tuple[ConsumerGroup | None, tuple[int, int]] = (None, (0, 0))
        self.bounces = 0

    @property
    def group(self) -> ConsumerGroup | None:
        return self.shell.shard.ledger.consumers.get(GROUP)

    def hear(self) -> None:
        """Answers arrive in order; a member has one request under way."""
        waiting = []
        for client, call in self.calls:
            if not call.is_answered:
                waiting.append((client, call))
            elif isinstance(client, ClassicConsumer):
                client.hear(call.replies[0], self.shell)
            else:
                reply = call.replies[0]
                assert isinstance(reply, AssignmentReply)
                self.seen[reply.error.name] += 1
                client.hear(reply)
        self.calls = waiting

    def is_busy(self, client: Consumer | ClassicConsumer) -> bool:
        return any(one is client for one, _ in self.calls)

    # Members

    @rule(who=WHO, is_full=st.booleans(), is_lost=st.sampled_from([False, False, False, True]))
    def beats(self, who: int, is_full: bool, is_lost: bool) -> None:
        client = self.consumers[who]
        if self.is_busy(client):
            return
        call = self.shell.send(client.next_beat(is_full=is_full))
        if not is_lost:
            self.calls.append((client, call))
            self.hear()
        group = self.group
        if group is not None:
            self.seen["mixed"] += bool(group.classic_members) and len(group.classic_members) < len(group.members)
            states = [one.state for one in group.current.values()]
            self.seen["unrevoked"] += MemberState.UNREVOKED in states
            self.seen["unreleased"] += MemberState.UNRELEASED in states

    @rule(who=WHO)
    def lets_go(self, who: int) -> None:
        self.consumers[who].let_go()

    @rule(who=WHO)
    def joins_late(self, who: int) -> None:
        """A delayed copy of its join; the answer is lost."""
        client, group = self.consumers[who], self.group
        if client.epoch > 0 and group is not None and client.member_id in group.members:
            late = Consumer(
                client.member_id, *client.topics, instance_id=client.instance_id, expression=client.expression
            )
            self.shell.send(late.next_beat())

    @rule(who=WHO)
    def beats_late(self, who: int) -> None:
        """A heartbeat of its last epoch, long under way."""
        client = self.consumers[who]
        if client.epoch > 1:
            call = self.shell.send(beat(client.member_id, client.epoch - 1, instance_id=client.instance_id))
            self.shell.flush()
            self.seen[call.reply(AssignmentReply).error.name] += 1
            self.hear()

    @rule(who=WHO)
    def leaves(self, who: int) -> None:
        client = self.consumers[who]
        if client.epoch > 0 and not self.is_busy(client):
            client.reads = {}
            self.shell.send(beat(client.member_id, -1, instance_id=client.instance_id))
            client.forget()

    @rule(is_in_order=st.booleans())
    def bounces_under_its_name(self, is_in_order: bool) -> None:
        """The static member's process starts again, with or without having said good-bye."""
        client = self.consumers[3]
        if self.is_busy(client):
            return
        client.reads = {}
        if is_in_order and client.epoch > 0:
            self.shell.send(beat(client.member_id, -2, instance_id=client.instance_id))
            self.seen["gone for a while"] += 1
        self.bounces += 1
        client.member_id = f"d{self.bounces}"
        client.forget()

    @rule(who=WHO, topics=st.sampled_from([("orders",), ("payments",), ("orders", "payments"), ("missing",)]))
    def wants_something_else(self, who: int, topics: tuple[str, ...]) -> None:
        if not self.consumers[who].expression:
            self.consumers[who].topics = topics

    @rule(who=CLASSIC_WHO)
    def classic_member_acts(self, who: int) -> None:
        client = self.classics[who]
        if not self.is_busy(client):
            self.calls.append((client, client.act(self.shell)))
            self.hear()

    @rule(who=CLASSIC_WHO)
    def classic_member_leaves(self, who: int) -> None:
        client = self.classics[who]
        if client.member_id and not self.is_busy(client):
            self.shell.send(LeaveGroup(GROUP, (LeavingMember(client.member_id),)))
            self.classics[who] = ClassicConsumer(CLASSIC)

    # The world

    @rule(topic=st.sampled_from(["orders", "payments"]), more=st.integers(1, 3))
    def topic_grows(self, topic: str, more: int) -> None:
        self.shell.topics.make(topic, min(self.shell.topics.counts.get(topic, 0) + more, 12))

    @rule(is_gone=st.sampled_from([True, False, False]))
    def topic_goes(self, is_gone: bool) -> None:
        if is_gone and "payments" in self.shell.topics.counts:
            self.shell.topics.delete("payments")

    @rule(duration_ms=st.sampled_from([0, 500, 3 * SECOND, 11 * SECOND, 46 * SECOND, 61 * SECOND]))
    def time_passes(self, duration_ms: int) -> None:
        self.shell.advance(duration_ms)
        self.hear()

    @rule()
    def flush(self) -> None:
        self.shell.flush()
        self.hear()

    @rule()
    def crash(self) -> None:
        """Waiting members get no answer, and send again."""
        self.shell.crash()
        for client, call in self.calls:
            if isinstance(client, ClassicConsumer) and not call.is_answered:
                client.joined, client.is_synced, client.reads = None, False, {}
        self.calls = [(client, call) for client, call in self.calls if call.is_answered]
        self.seen["reloaded"] += self.group is not None

    @precondition(lambda self: self.shell.log)
    @rule()
    def fail_append(self) -> None:
        self.shell.fail_append(ErrorCode.NOT_COORDINATOR)
        self.calls = [(client, call) for client, call in self.calls if isinstance(client, Consumer)]
        for classic in self.classics:
            classic.joined, classic.is_synced, classic.reads = None, False, {}
        self.hear()

    @rule(rounds=st.integers(1, 4))
    def everybody_behaves(self, rounds: int) -> None:
        for _ in range(rounds):
            self.one_round()

    def one_round(self) -> None:
        for client in self.consumers:
            if not self.is_busy(client):
                client.let_go()
                self.calls.append((client, self.shell.send(client.next_beat())))
                self.shell.flush()
                self.hear()
        for classic in self.classics:
            for _ in range(3):
                if not self.is_busy(classic):
                    self.calls.append((classic, classic.act(self.shell)))
                self.shell.flush()
                self.hear()
        self.shell.advance(3 * SECOND)
        self.shell.flush()
        self.hear()

    # What must hold

    def members(self) -> list[Consumer | ClassicConsumer]:
        """Clients that the group counts among its own: who was given up may not know it yet."""
        group, classic = self.group, self.shell.shard.groups.get(GROUP)
        known = dict.fromkeys([*(group.members if group else ()), *(classic.members if classic else ())])
        clients: list[Consumer | ClassicConsumer] = [*self.consumers, *self.classics]
        return [one for one in clients if one.member_id in known]

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        readers: dict[TopicIdPartition, object] = {}
        for client in self.members():
            for at in client.reads:
                assert at not in readers, f"{at} is read by {client} and {readers[at]}"
                readers[at] = client

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.group
        if group is None:
            return
        owned = [(at, one.member_id) for one in group.current.values() for at in (*one.assigned, *one.revoking)]
        assert len(owned) == len(dict(owned))
        assert dict(owned) == group.owners

    @invariant()
    def targets_give_each_partition_once(self) -> None:
        group = self.group
        if group is not None and group.epoch == group.target_epoch:
            assigned = [at for member_id in group.members for at in group.target_of(member_id)]
            assert len(assigned) == len(dict.fromkeys(assigned))

    @invariant()
    def the_ledger_is_what_the_records_say(self) -> None:
        assert self.shell.shard.ledger == self.shell.replayed()

    @invariant()
    def epochs_only_grow(self) -> None:
        """As long as it is the same group: one that was deleted, or is loaded again, begins where its records say."""
        group, (before, epochs) = self.group, self.last
        if group is None:
            return
        present = (group.epoch, group.target_epoch)
        assert group is not before or present >= epochs
        assert group.target_epoch <= group.epoch
        assert all(one.epoch <= group.epoch for one in group.current.values())
        self.last = (group, present)

    @invariant()
    def a_group_is_of_one_kind(self) -> None:
        assert not (GROUP in self.shell.shard.groups and GROUP in self.shell.shard.ledger.consumers)
        assert not (GROUP in self.shell.shard.ledger.groups and GROUP in self.shell.shard.ledger.consumers)

    @invariant()
    def every_member_has_a_session(self) -> None:
        timers = self.shell.shard._state.timers
        group = self.group
        for member_id in group.members if group else ():
            assert Timer(TimerKind.SESSION, GROUP, member_id) in timers
            is_late = group is not None and group.current_of(member_id).state is MemberState.UNREVOKED
            is_classic = group is not None and group.members[member_id].is_classic
            is_away = group is not None and group.current_of(member_id).epoch < 0
            if is_late and not is_classic and not is_away:
                assert Timer(TimerKind.REVOCATION, GROUP, member_id) in timers

    def teardown(self) -> None:
        """In the end every subscribed partition has a reader."""
        if not hasattr(self, "shell"):
            return
        self.shell.flush()
        self.hear()
        for _ in range(30):
            self.one_round()
        group, classic = self.group, self.shell.shard.groups.get(GROUP)
        assert group is not None, classic
        assert group.state is ConsumerGroupState.STABLE
        assert classic is None or classic.state is GroupState.EMPTY
        topics = self.shell.topics
        wanted = {
            TopicIdPartition(topics.topic_id(topic) or b"", number): None
            for topic in group.subscribed_topics()
            for number in range(topics.counts.get(topic, 0))
        }
        read = {at: None for client in self.members() for at in client.reads}
        assert read == {at: None for at in read if at in wanted}
        assert {at for at in wanted if at not in read} == set()
        self.seen["settled with classic members"] += bool(group.classic_members)


@pytest.mark.long
@pytest.mark.data
def test_random_histories_keep_their_invariants() -> None:
    ConsumerHistories.seen.clear()
    run_state_machine_as_test(
        ConsumerHistories,
        settings=settings(
            max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    wanted = ["mixed", "unrevoked", "unreleased", "reloaded", "gone for a while", "settled with classic members"]
    wanted += [ErrorCode.FENCED_MEMBER_EPOCH.name, ErrorCode.UNKNOWN_MEMBER_ID.name]
    wanted += [ErrorCode.UNRELEASED_INSTANCE_ID.name]
    assert {name for name in wanted if ConsumerHistories.seen[name] == 0} == set(), "the histories were dull"
