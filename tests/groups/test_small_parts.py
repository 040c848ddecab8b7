"""Placement, settings, timers, subscriptions and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.groups.shell import subscription

from qanat.groups.classic.subscription import subscribed_topics
from qanat.groups.decisions import coordinator_error
from qanat.groups.replies import CommitReply, PartitionOutcome, refused
from qanat.groups.requests import CommitOffsets, OffsetToCommit
from qanat.groups.settings import GroupSettings
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError
from qanat.model.placement import coordinator_partition
from qanat.model.timers import Timers


@pytest.mark.parametrize(
    ("group_id", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),
    ],
)
def test_a_group_is_where_java_would_put_it(group_id: str, hash_code: int) -> None:
    """Hash codes as `String.hashCode` gives them; the smallest integer counts as 0."""
    assert coordinator_partition(group_id, 2**31) == (0 if hash_code == -(2**31) else abs(hash_code))
    assert coordinator_partition(group_id, 50) == (0 if hash_code == -(2**31) else abs(hash_code)) % 50


def test_settings_go_by_kafkas_names() -> None:
    settings = GroupSettings.parse({"group.initial.rebalance.delay.ms": "0", "offsets.retention.minutes": "1"})
    assert (settings.group_initial_rebalance_delay_ms, settings.offsets_retention_ms) == (0, 60_000)
    with pytest.raises(InvalidSettingError, match=r"did you mean group\.max\.size"):
        GroupSettings.parse({"group.max.sizes": 1})


def test_session_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"group.min.session.timeout.ms \(9\) must not be above"):
        GroupSettings.parse({"group.min.session.timeout.ms": 9, "group.max.session.timeout.ms": 8})


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 50))), max_size=60))
def test_timers_fire_in_the_order_of_their_last_setting(acts: list[tuple[int, int | None]]) -> None:
    timers, model = Timers[Timer](), dict[Timer, int]()
    for name, at_ms in acts:
        timer = Timer(TimerKind.SESSION, str(name))
        if at_ms is None:
            timers.cancel(timer)
            model.pop(timer, None)
        else:
            timers.schedule(timer, at_ms)
            model[timer] = at_ms
        assert timers.next_ms() == min(model.values(), default=None)
    fired = []
    while (due := timers.pop_due(25)) is not None:
        fired.append(model.pop(due))
    assert fired == sorted(fired)
    assert all(at_ms > 25 for at_ms in model.values())
    assert len(timers) == len(model)


def test_moving_a_deadline_does_not_pile_up_entries() -> None:
    timers = Timers[Timer]()
    for at_ms in range(1_000):
        timers.schedule(Timer(TimerKind.SESSION, "g", "m"), at_ms)
    assert len(timers._heap) == 1


def test_topics_are_read_out_of_subscriptions() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b")]) == frozenset({"a", "b"})
    assert subscribed_topics([]) == frozenset()


@given(st.binary(max_size=60))
def test_a_subscription_of_any_bytes_is_read_or_left_alone(content: bytes) -> None:
    found = subscribed_topics([content])
    assert found is None or all(isinstance(topic, str) for topic in found)


def test_a_count_of_topics_that_is_not_there_is_not_believed() -> None:
    assert subscribed_topics([b"\0\0\x7f\xff\xff\xff"]) is None


def test_a_refusal_names_every_partition() -> None:
    request = CommitOffsets("g", (OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1)))
    error = coordinator_error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert refused(request, error) == CommitReply(
        (PartitionOutcome("t", 0, ErrorCode.NOT_COORDINATOR), PartitionOutcome("t", 1, ErrorCode.NOT_COORDINATOR))
    )
