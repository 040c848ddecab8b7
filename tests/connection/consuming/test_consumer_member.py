"""A member in the protocol of KIP-848: what it says, and when it owns what."""

from __future__ import annotations

import random

import pytest

from qanat.connection.consuming.consumer_member import ConsumerMember, IdPartition, Verdict
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

TOPIC = b"t" * 16
OTHER = b"o" * 16


def member(instance_id: str | None = None) -> ConsumerMember:
    return ConsumerMember("g", ["t"], "m", rebalance_timeout_ms=1000, instance_id=instance_id)


def answer(epoch: int, numbers: list[int] | None, topic: bytes = TOPIC) -> ConsumerGroupHeartbeatResponse:
    given = None if numbers is None else Assignment([ResponseTopicPartitions(topic, numbers)])
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000, assignment=given)


def joined(numbers: list[int]) -> ConsumerMember:
    one = member()
    one.answered(one.request(), answer(1, numbers))
    change = one.begin({TOPIC})
    if change is not None:
        one.own(change)
        one.finish(change)
        one.answered(one.request(), answer(1, None))
    return one


def test_the_first_heartbeat_names_everything_and_later_ones_only_what_changed() -> None:
    one = member()
    first = one.request()
    one.answered(first, answer(1, []))
    later = one.request()

    assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, ["t"], [])
    assert first.rebalance_timeout_ms == 1000
    assert (later.member_epoch, later.subscribed_topic_names, later.topic_partitions) == (1, None, None)
    assert later.rebalance_timeout_ms == -1


def test_an_assignment_is_reported_once_it_is_owned() -> None:
    one = member()
    one.answered(one.request(), answer(1, [0, 1]))
    change = one.begin({TOPIC})
    assert change is not None
    assert [one.has_news] == [False]

    assert one.own(change) == ((TOPIC, 0), (TOPIC, 1))
    one.finish(change)

    assert one.has_news
    sent = one.request()
    assert sent.topic_partitions is not None
    assert [(each.topic_id, each.partitions) for each in sent.topic_partitions] == [(TOPIC, [0, 1])]
    one.answered(sent, answer(1, None))
    assert not one.has_news


def test_a_revoked_partition_is_owned_until_its_listener_has_returned() -> None:
    one = joined([0, 1])
    one.answered(one.request(), answer(1, [0]))
    change = one.begin({TOPIC})
    assert change is not None

    assert change.revoked == ((TOPIC, 1),)
    assert (TOPIC, 1) in one.owned
    one.revoked(change)
    assert one.owned == {(TOPIC, 0)}
    assert one.has_news


def test_a_newer_target_waits_for_the_end_of_the_current_reconciliation() -> None:
    one = joined([0])
    one.answered(one.request(), answer(2, [0, 1]))
    change = one.begin({TOPIC})
    assert change is not None
    one.answered(one.request(), answer(3, [0, 2]))

    assert one.begin({TOPIC}) is None
    assert one.own(change) == ()  # Partition 1 is no longer wanted.
    one.finish(change)
    following = one.begin({TOPIC})
    assert following is not None
    assert following.added == ((TOPIC, 2),)


def test_partitions_of_topics_without_a_known_name_wait() -> None:
    one = joined([])
    one.answered(one.request(), answer(2, [0], OTHER))

    assert one.begin({TOPIC}) is None
    assert one.unknown_topics({TOPIC}) == {OTHER}
    assert one.begin({TOPIC, OTHER}) is not None


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_anew(code: ErrorCode) -> None:
    one = joined([0, 1])

    assert one.answered(one.request(), ConsumerGroupHeartbeatResponse(error_code=code)) is Verdict.FENCED
    assert one.fence() == ((TOPIC, 0), (TOPIC, 1))
    again = one.request()
    assert (again.member_epoch, again.subscribed_topic_names, again.topic_partitions) == (0, ["t"], [])


def test_a_reconciliation_from_before_a_fence_changes_nothing() -> None:
    one = joined([0])
    one.answered(one.request(), answer(1, [0, 1]))
    change = one.begin({TOPIC})
    assert change is not None
    one.fence()

    assert one.own(change) == ()
    one.revoked(change)
    one.finish(change)
    assert one.owned == frozenset()


def test_after_a_failure_everything_is_named_again() -> None:
    one = joined([0])
    one.failed()
    request = one.request()

    assert request.subscribed_topic_names == ["t"]
    assert request.topic_partitions is not None
    assert request.member_epoch == 1


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.LATER),
        (ErrorCode.NOT_COORDINATOR, Verdict.LATER),
        (ErrorCode.UNRELEASED_INSTANCE_ID, Verdict.REFUSED),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Verdict.REFUSED),
    ],
)
def test_an_error_is_either_waited_for_or_final(code: ErrorCode, verdict: Verdict) -> None:
    one = joined([0])

    assert one.answered(one.request(), ConsumerGroupHeartbeatResponse(error_code=code)) is verdict


def test_a_static_member_leaves_for_a_while_only() -> None:
    assert member().leave_request().member_epoch == -1
    assert member("i").leave_request().member_epoch == -2


def test_a_changed_subscription_is_news() -> None:
    one = joined([0])
    one.subscribe(["u", "t"])

    assert one.has_news
    assert one.request().subscribed_topic_names == ["t", "u"]


class Group:
    """A coordinator with two members that never gives out what another one owns."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.owned: dict[str, set[int]] = {}
        self.target: dict[str, set[int]] = {}
        self.epochs: dict[str, int] = {}
        self.epoch = 0

    def balance(self, names: list[str], chance: random.Random) -> None:
        self.epoch += 1
        self.target = {name: set() for name in names}
        for number in range(self.size):
            self.target[chance.choice(names)].add(number)

    def heartbeat(self, name: str, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch == 0:
            self.owned[name] = set()
        if request.topic_partitions is not None:
            self.owned[name] = {number for one in request.topic_partitions for number in one.partitions}
        others = {number for other, owned in self.owned.items() if other != name for number in owned}
        given = self.target[name] - others
        self.owned[name] |= given  # Reserved from now on.
        if self.owned[name] - self.target[name]:
            given = self.owned[name] & self.target[name]
        self.epochs[name] = self.epoch
        return answer(self.epoch, sorted(given))


@pytest.mark.parametrize("seed", range(150))
def test_no_two_members_own_a_partition_at_one_time_and_all_end_with_their_part(seed: int) -> None:
    chance = random.Random(seed)
    group = Group(chance.randint(1, 8))
    names = ["a", "b", "c"][: chance.randint(1, 3)]
    members = {name: ConsumerMember("g", ["t"], name, rebalance_timeout_ms=1) for name in names}
    group.balance(names, chance)

    def check() -> None:
        owners: dict[IdPartition, str] = {}
        for name, one in members.items():
            for at in one.owned:
                assert owners.setdefault(at, name) == name

    def step(name: str) -> None:
        one = members[name]
        request = one.request()
        if chance.random() < 0.1:
            one.failed()  # The answer is lost.
            group.heartbeat(name, request)
        else:
            one.answered(request, group.heartbeat(name, request))
        change = one.begin({TOPIC})
        if change is not None:
            one.revoked(change)
            if chance.random() < 0.5:
                one.own(change)
            one.finish(change)
        check()

    for _ in range(60):
        if chance.random() < 0.1:
            group.balance(names, chance)
        step(chance.choice(names))
    for _ in range(30):
        for name in names:
            step(name)

    assert {name: {number for _, number in one.owned} for name, one in members.items()} == group.target
