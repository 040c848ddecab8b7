"""Members of share groups: joining, sharing partitions, epochs, silence, and what other kinds of group make of it."""

from __future__ import annotations

import pytest
from tests.groups import consumers
from tests.groups.shares import GROUP, Worker, beat, group_of, join
from tests.groups.shell import DAY, SECOND, Entry, Shell

from qanat.groups.group_overrides import GroupOverrides
from qanat.groups.replies import (
    AssignmentReply,
    CommitReply,
    DeleteGroupReply,
    DescribeReply,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    ListReply,
    ShareDescribeReply,
    SharedTopicsReply,
    SyncReply,
)
from qanat.groups.requests import (
    ChangeSharedTopics,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DescribeGroup,
    DescribeShareGroup,
    FetchOffsets,
    Heartbeat,
    ListGroups,
    ListSharedTopics,
    OffsetToCommit,
    ShareHeartbeat,
    SyncGroup,
)
from qanat.groups.settings import GroupSettings
from qanat.groups.share.records import SharedTopic
from qanat.model.error_codes import ErrorCode


def told(shell: Shell, request: ShareHeartbeat) -> AssignmentReply:
    return shell.ask(request, AssignmentReply)


def numbers(reply: AssignmentReply) -> list[int]:
    assert reply.assignment is not None
    return [at.partition for at in reply.assignment]


def test_a_member_is_told_at_once_what_to_work_on() -> None:
    shell = Shell()
    reply = told(shell, join("a"))

    assert (reply.error, reply.member_epoch, numbers(reply)) == (ErrorCode.NONE, 1, list(range(8)))
    assert told(shell, beat("a", 1)).assignment is None
    assert numbers(told(shell, beat("a", 1, topics=("orders",)))) == list(range(8))


def test_more_members_than_partitions_work_on_the_same_ones() -> None:
    shell = Shell()
    shell.topics.make("orders", 2)
    workers = [Worker(name, "orders") for name in "abcde"]
    for _ in range(2):
        for worker in workers:
            worker.hear(told(shell, worker.next_beat()))

    crews = [worker.assigned[0].partition for worker in workers]
    assert [len(worker.assigned) for worker in workers] == [1] * 5
    assert sorted(crews.count(number) for number in (0, 1)) == [2, 3]
    assert group_of(shell).state == "Stable"


def test_a_new_topic_and_more_partitions_are_found_without_asking() -> None:
    shell = Shell()
    epoch = told(shell, join("a", "orders", "later")).member_epoch
    shell.topics.make("later", 1)
    shell.topics.make("orders", 9)
    reply = told(shell, beat("a", epoch))

    assert (reply.member_epoch, len(numbers(reply))) == (epoch + 1, 10)


def test_silence_ends_a_membership_and_heartbeats_prolong_it() -> None:
    shell = Shell(GroupSettings(group_share_session_timeout_ms=10_000, group_share_heartbeat_interval_ms=1_000))
    told(shell, join("a"))
    told(shell, join("b"))
    shell.advance(6 * SECOND)
    told(shell, beat("a", 1))
    shell.advance(6 * SECOND)

    assert list(group_of(shell).members) == ["a"]
    assert told(shell, beat("b", 2)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert numbers(told(shell, beat("a", 2))) == list(range(8))


def test_a_group_may_have_times_of_its_own() -> None:
    shell = Shell()
    own = GroupOverrides(share_session_timeout_ms=2_000, share_heartbeat_interval_ms=700)
    shell.group_overrides = lambda group_id: own if group_id == GROUP else GroupOverrides()
    shell.load()
    assert told(shell, join("a")).heartbeat_interval_ms == 700
    shell.advance(3 * SECOND)

    assert group_of(shell).members == {}


def test_who_has_left_is_gone_and_the_group_stays() -> None:
    shell = Shell()
    told(shell, join("a"))
    reply = told(shell, beat("a", -1))

    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, -1)
    assert told(shell, beat("a", -1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    shell.advance(30 * DAY)
    described = shell.ask(DescribeShareGroup(GROUP), ShareDescribeReply)
    assert (described.error, described.state, described.members) == (ErrorCode.NONE, "Empty", ())


def test_epochs_fence_a_member_that_is_not_who_it_thinks() -> None:
    shell = Shell()
    told(shell, join("a"))
    epoch = told(shell, beat("a", 1, topics=("orders", "payments"))).member_epoch

    assert epoch == 2
    assert told(shell, beat("a", 3)).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert told(shell, beat("a", 1)).error is ErrorCode.NONE, "it may not have heard of its new epoch"
    told(shell, beat("a", 2, topics=("orders",)))
    assert told(shell, beat("a", 1)).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert numbers(told(shell, join("a"))) == list(range(8)), "it may begin anew"


@pytest.mark.parametrize(
    "request_",
    [
        ShareHeartbeat("", "m", 0, topics=("orders",)),
        ShareHeartbeat(" ", "m", 0, topics=("orders",)),
        ShareHeartbeat("x" * 8_001, "m", 0, topics=("orders",)),
        ShareHeartbeat(GROUP, "", 0, topics=("orders",)),
        ShareHeartbeat(GROUP, "m" * 8_001, 0, topics=("orders",)),
        ShareHeartbeat(GROUP, "m", 0),
        ShareHeartbeat(GROUP, "m", 0, topics=()),
        ShareHeartbeat(GROUP, "m", 0, rack_id="", topics=("orders",)),
        ShareHeartbeat(GROUP, "m", -2),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(request_: ShareHeartbeat) -> None:
    shell = Shell()
    reply = told(shell, request_)

    assert reply.error is ErrorCode.INVALID_REQUEST
    assert reply.message
    assert shell.log == []


def test_a_group_has_a_largest_size() -> None:
    shell = Shell(GroupSettings(group_share_max_size=2))
    told(shell, join("a"))
    told(shell, join("b"))

    assert told(shell, join("c")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert told(shell, join("b")).error is ErrorCode.NONE
    assert told(shell, beat("a", -1)).error is ErrorCode.NONE
    assert told(shell, join("c")).error is ErrorCode.NONE


def test_kinds_of_group_do_not_mix() -> None:
    shell = Shell()
    told(shell, join("a"))
    row = (OffsetToCommit("orders", 0, 5),)

    assert shell.join("").reply(JoinReply).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.ask(Heartbeat(GROUP, "a", 1), HeartbeatReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.ask(SyncGroup(GROUP, "a", 1), SyncReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.ask(consumers.join("c"), AssignmentReply).error is ErrorCode.GROUP_ID_NOT_FOUND
    committed = shell.ask(CommitOffsets(GROUP, row), CommitReply).partitions[0].error
    assert committed is ErrorCode.GROUP_ID_NOT_FOUND
    promised = shell.ask(CommitTransactionOffsets(GROUP, 1, 0, row), CommitReply).partitions[0].error
    assert promised is ErrorCode.GROUP_ID_NOT_FOUND
    fetched = shell.ask(FetchOffsets(GROUP), FetchReply)
    assert (fetched.error, fetched.offsets) == (ErrorCode.NONE, ())
    assert shell.ask(DescribeGroup(GROUP), DescribeReply).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_name_that_another_kind_of_group_has_is_taken() -> None:
    shell = Shell()
    shell.ask(consumers.join("c"), AssignmentReply)
    assert told(shell, join("a")).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert told(shell, beat("a", -1)).error is ErrorCode.GROUP_ID_NOT_FOUND

    classic = Shell()
    classic.ask(CommitOffsets(GROUP, (OffsetToCommit("orders", 0, 5),)), CommitReply)
    assert told(classic, join("a")).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_share_groups_are_listed_by_type_and_state() -> None:
    shell = Shell()
    told(shell, join("a"))

    def listed(request: ListGroups) -> list[tuple[str, str, str]]:
        found = shell.ask(request, ListReply).groups
        return [(one.protocol_type, one.state, one.group_type) for one in found]

    assert listed(ListGroups(types=("Share",))) == [("share", "Stable", "share")]
    assert listed(ListGroups(types=("consumer",))) == []
    told(shell, beat("a", -1))
    assert listed(ListGroups(states=("empty",))) == [("share", "Empty", "share")]


def test_an_empty_group_is_deleted_with_all_its_records() -> None:
    shell = Shell()
    told(shell, join("a"))
    assert shell.ask(DeleteGroup(GROUP), DeleteGroupReply).error is ErrorCode.NON_EMPTY_GROUP
    told(shell, beat("a", -1))
    assert shell.ask(DeleteGroup(GROUP), DeleteGroupReply).error is ErrorCode.NONE

    assert shell.ask(DescribeShareGroup(GROUP), ShareDescribeReply).error is ErrorCode.GROUP_ID_NOT_FOUND
    latest = {entry.key: entry.value for entry in shell.log if isinstance(entry, Entry)}
    assert latest
    assert set(latest.values()) == {None}, "compaction leaves nothing of it"


def test_a_group_remembers_of_which_partitions_it_keeps_a_state() -> None:
    shell = Shell()
    told(shell, join("a", "orders"))
    told(shell, beat("a", 1, topics=("payments",)))
    both = shell.ask(ListSharedTopics(GROUP), SharedTopicsReply).topics
    assert [one.name for one in both] == ["orders", "payments"]
    refused = shell.ask(ListSharedTopics(GROUP, must_be_empty=True), SharedTopicsReply)
    assert refused.error is ErrorCode.NON_EMPTY_GROUP
    assert shell.ask(ChangeSharedTopics(GROUP), SharedTopicsReply).error is ErrorCode.NON_EMPTY_GROUP

    told(shell, beat("a", -1))
    shell.topics.make("elsewhere", 1)
    more = SharedTopic(shell.topics.topic_id("elsewhere") or b"", "elsewhere", (0,))
    assert shell.ask(ChangeSharedTopics(GROUP, (more,), (both[0].topic_id,)), SharedTopicsReply).error == 0
    shell.crash()
    assert [one.name for one in group_of(shell).topics.values()] == ["elsewhere", "payments"]
    assert shell.ask(ListSharedTopics("other"), SharedTopicsReply).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_that_are_set_found_a_group_without_members() -> None:
    shell = Shell()
    at = SharedTopic(shell.topics.topic_id("orders") or b"", "orders", (1,))
    asked = ListSharedTopics(GROUP, must_be_empty=True, may_be_new=True)
    assert shell.ask(asked, SharedTopicsReply).error is ErrorCode.NONE
    assert shell.log == [], "a question founds nothing"
    assert shell.ask(ChangeSharedTopics(GROUP, (at,)), SharedTopicsReply).error is ErrorCode.NONE

    shell.crash()
    described = shell.ask(DescribeShareGroup(GROUP), ShareDescribeReply)
    assert (described.state, described.epoch, described.members) == ("Empty", 0, ())
    assert shell.ask(ListSharedTopics(GROUP), SharedTopicsReply).topics == (at,)
    assert told(shell, join("a", "orders")).member_epoch == 1
    told(shell, beat("a", -1))
    assert shell.ask(DeleteGroup(GROUP), DeleteGroupReply).error is ErrorCode.NONE


def test_no_share_group_is_founded_by_taking_offsets_away_nor_where_another_kind_has_the_name() -> None:
    shell = Shell()
    topic_id = shell.topics.topic_id("orders") or b""
    founding = ChangeSharedTopics(GROUP, (SharedTopic(topic_id, "orders", (0,)),))
    gone = ChangeSharedTopics(GROUP, removed=(topic_id,))
    assert shell.ask(gone, SharedTopicsReply).error is ErrorCode.GROUP_ID_NOT_FOUND

    shell.ask(consumers.join("c"), AssignmentReply)
    classic = Shell()
    classic.ask(CommitOffsets(GROUP, (OffsetToCommit("orders", 0, 5),)), CommitReply)
    for one in (shell, classic):
        assert one.ask(founding, SharedTopicsReply).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert one.shard.ledger.shares == {}


def test_a_group_is_the_same_after_a_crash_and_silent_members_are_missed() -> None:
    shell = Shell()
    for name in "abc":
        told(shell, join(name))
    before = group_of(shell).as_values()
    shell.crash()

    assert group_of(shell).as_values() == before
    assert told(shell, beat("b", 2)).error is ErrorCode.NONE
    shell.advance(46 * SECOND)
    assert group_of(shell).members == {}
