"""Random histories of a share group: members that come, go and fall silent, lost answers, topics, crashes."""

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
from tests.groups import consumers
from tests.groups.shares import GROUP, Worker, beat
from tests.groups.shell import SECOND, Call, Shell

from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import DeleteGroup
from qanat.groups.settings import GroupSettings
from qanat.groups.share.group import ShareGroup
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode

WHO = st.integers(0, 4)


class ShareHistories(RuleBasedStateMachine):
    """One group and five members, one too many."""

    seen: ClassVar[Counter[str]] = Counter()

    @initialize(is_slow=st.booleans())
    def begin(self, is_slow: bool) -> None:
        self.shell = Shell(GroupSettings(group_share_max_size=4), is_slow=is_slow)
        self.shell.topics.make("orders", 3)
        self.workers = [Worker(name, "orders") for name in "abcd"] + [Worker("e", "orders", "payments")]
        self.calls: list[tuple[Worker, Call]] = []
        self.last: tuple[ShareGroup | None, int] = (None, 0)

    @property
    def group(self) -> ShareGroup | None:
        return self.shell.shard.ledger.shares.get(GROUP)

    def hear(self) -> None:
        for worker, call in self.calls:
            if call.is_answered:
                reply = call.replies[0]
                assert isinstance(reply, AssignmentReply)
                self.seen[reply.error.name] += 1
                worker.hear(reply)
        self.calls = [(worker, call) for worker, call in self.calls if not call.is_answered]

    def is_busy(self, worker: Worker) -> bool:
        return any(one is worker for one, _ in self.calls)

    @rule(who=WHO, is_full=st.booleans(), is_lost=st.sampled_from([False, False, False, True]))
    def beats(self, who: int, is_full: bool, is_lost: bool) -> None:
        worker = self.workers[who]
        if not self.is_busy(worker):
            call = self.shell.send(worker.next_beat(is_full=is_full))
            if not is_lost:
                self.calls.append((worker, call))
                self.hear()

    @rule(who=WHO)
    def leaves(self, who: int) -> None:
        worker = self.workers[who]
        if worker.epoch > 0 and not self.is_busy(worker):
            self.shell.send(beat(worker.member_id, -1))
            worker.forget()

    @rule(who=WHO, topics=st.sampled_from([("orders",), ("payments",), ("orders", "payments"), ("missing",)]))
    def wants_something_else(self, who: int, topics: tuple[str, ...]) -> None:
        self.workers[who].topics = topics

    @rule()
    def another_kind_of_member_comes(self) -> None:
        call = self.shell.send(consumers.join("x"))
        self.shell.flush()
        self.hear()
        if call.reply(AssignmentReply).error is ErrorCode.NONE:
            self.shell.send(consumers.beat("x", -1))
            self.shell.send(DeleteGroup(GROUP))
            self.shell.flush()

    @rule()
    def is_deleted(self) -> None:
        self.shell.send(DeleteGroup(GROUP))
        self.shell.flush()
        self.hear()
        self.seen["deleted"] += self.group is None

    @rule(topic=st.sampled_from(["orders", "payments"]), more=st.integers(1, 3))
    def topic_grows(self, topic: str, more: int) -> None:
        self.shell.topics.make(topic, min(self.shell.topics.counts.get(topic, 0) + more, 8))

    @rule()
    def topic_goes(self) -> None:
        if "payments" in self.shell.topics.counts:
            self.shell.topics.delete("payments")

    @rule(duration_ms=st.sampled_from([0, 3 * SECOND, 20 * SECOND, 46 * SECOND]))
    def time_passes(self, duration_ms: int) -> None:
        self.shell.advance(duration_ms)
        self.hear()

    @rule()
    def flush(self) -> None:
        self.shell.flush()
        self.hear()

    @rule()
    def crash(self) -> None:
        self.shell.crash()
        self.calls = []
        self.seen["reloaded"] += self.group is not None

    @precondition(lambda self: self.shell.log)
    @rule()
    def fail_append(self) -> None:
        self.shell.fail_append(ErrorCode.NOT_COORDINATOR)
        self.hear()

    # What must hold

    @invariant()
    def the_ledger_is_what_the_records_say(self) -> None:
        assert self.shell.shard.ledger == self.shell.replayed()

    @invariant()
    def a_group_is_of_one_kind(self) -> None:
        ledger = self.shell.shard.ledger
        assert (GROUP in ledger.shares) + (GROUP in ledger.consumers) + (GROUP in self.shell.shard.groups) <= 1

    @invariant()
    def epochs_only_grow(self) -> None:
        group, (before, epoch) = self.group, self.last
        if group is not None:
            assert group is not before or group.epoch >= epoch
            assert group.target_epoch <= group.epoch
            assert all(one.epoch <= group.target_epoch for one in group.current.values())
            self.last = (group, group.epoch)

    @invariant()
    def members_have_sessions_and_nobody_else_does(self) -> None:
        timers, group = self.shell.shard._state.timers, self.group
        for worker in self.workers:
            is_member = group is not None and worker.member_id in group.members
            assert (Timer(TimerKind.SESSION, GROUP, worker.member_id) in timers) == is_member

    @invariant()
    def a_group_is_not_too_large(self) -> None:
        assert self.group is None or len(self.group.members) <= 4

    @invariant()
    def a_state_is_kept_of_all_that_is_assigned(self) -> None:
        group = self.group
        if group is None:
            return
        kept = {(one.topic_id, number) for one in group.topics.values() for number in one.partitions}
        is_there = self.shell.topics.topic_name
        assigned = {at for one in group.targets.values() for at in one if is_there(at.topic_id)}
        assert assigned <= kept

    def teardown(self) -> None:
        """In the end every subscribed partition has a member, and no member that could have one is idle."""
        if not hasattr(self, "shell"):
            return
        self.shell.flush()
        self.hear()
        for _ in range(4):
            for worker in self.workers:
                self.calls.append((worker, self.shell.send(worker.next_beat(is_full=True))))
                self.shell.flush()
                self.hear()
        group, topics = self.group, self.shell.topics
        assert group is not None
        wanted = {
            (topics.topic_id(topic), number)
            for topic in group.subscribed_topics()
            for number in range(topics.counts.get(topic, 0))
        }
        members = [worker for worker in self.workers if worker.member_id in group.members]
        assert {tuple(at) for worker in members for at in worker.assigned} == wanted
        for worker in members:
            assert bool(worker.assigned) == any(topic in topics.counts for topic in worker.topics)


@pytest.mark.long
@pytest.mark.data
def test_random_histories_keep_their_invariants() -> None:
    ShareHistories.seen.clear()
    run_state_machine_as_test(
        ShareHistories,
        settings=settings(
            max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    wanted = ["reloaded", "deleted", ErrorCode.UNKNOWN_MEMBER_ID.name, ErrorCode.GROUP_MAX_SIZE_REACHED.name]
    assert {name for name in wanted if ShareHistories.seen[name] == 0} == set(), "the histories were dull"
