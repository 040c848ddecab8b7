"""A refresh at one subscriber: RESET, replay, READY, repetitions, and the end where another was faster."""

from __future__ import annotations

from qanat.edge.credit import CreditWindow
from qanat.edge.push_session import Place, PushSession
from qanat.edge.refresh_ledger import GIVE_UP_MS, READY_RETRY_MS, RESET_RETRY_MS, Cancel, Move, decide
from qanat.edge.refresh_turn import Act, End, RefreshTurn, SendReady, SendReset, Write, turn_of
from qanat.model.ids import TopicPartition
from qanat.model.push_refreshes import PartitionRefresh, PushRefresh, RefreshState

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


class Subscriber:
    """A session with a turn, on a ledger in memory."""

    def __init__(self, *partitions: TopicPartition) -> None:
        rows = tuple(PartitionRefresh(at.partition, 0, 2, 1) for at in partitions)
        self.entry = PushRefresh(id="r", group="g", topic="t", begun_ms=0, partitions=rows)
        self.session = PushSession(CreditWindow(100, 10_000), 0, is_committing=True)
        for at in partitions:
            self.session.assign(at, Place(2, 1))
        turn = turn_of(None, self.session, "t", self.entry)
        assert turn is not None
        self.turn: RefreshTurn = turn

    def act(self, now_ms: int) -> Act | None:
        """What is to be done, after all steps of the ledger are written."""
        while isinstance(act := self.turn.next(now_ms), Write):
            made = decide(self.entry, act.step, now_ms)
            self.entry = self.entry if made is None else made
            self.turn.wrote(act, made, now_ms, now_ms)
        return act

    def replay(self, at: TopicPartition, now_ms: int) -> None:
        for end in (1, 2):
            self.session.acknowledge(self.session.sent(at, Place(end, 1), 1, 10, now_ms), now_ms)

    def states(self) -> list[RefreshState]:
        return [one.state for one in self.entry.partitions]


def test_reset_is_repeated_until_it_is_answered_and_any_of_its_ids_counts() -> None:
    made = Subscriber(HERE)
    first = made.act(0)
    assert isinstance(first, SendReset)
    assert (first.ranges, first.retry) == ({HERE: (0, 2)}, 0)
    assert made.act(RESET_RETRY_MS - 1) is None
    second = made.act(RESET_RETRY_MS)
    assert isinstance(second, SendReset)
    assert second.retry == 1

    assert made.session.is_answer(first.frame_id, 6_000)
    assert made.turn.answered(first.frame_id, {}) == [HERE]
    assert made.turn.answered(second.frame_id, {}) == [], "the second answer changes nothing"
    assert made.act(2 * RESET_RETRY_MS) is None
    assert made.states() == [RefreshState.REPLAYING]


def test_ready_follows_when_every_partition_is_acknowledged_and_is_repeated() -> None:
    made = Subscriber(HERE, THERE)
    reset = made.act(0)
    assert isinstance(reset, SendReset)
    made.turn.answered(reset.frame_id, {THERE: Place(1, 1)})
    made.replay(HERE, 1)
    assert made.act(2) is None, "the other partition is behind"
    made.session.acknowledge(made.session.sent(THERE, Place(2, 1), 1, 10, 3), 3)
    ready = made.act(4)
    assert isinstance(ready, SendReady)
    assert ready.ends == {HERE: Place(2, 1), THERE: Place(2, 1)}
    assert made.states() == [RefreshState.READYING] * 2
    assert made.act(5) is None
    assert isinstance(made.act(4 + READY_RETRY_MS), SendReady)

    made.turn.answered(ready.frame_id, {})
    assert made.session.next_commit() == {HERE: Place(2, 1), THERE: Place(2, 1)}
    assert made.act(6) is None, "the ledger waits for the commit"
    made.session.commit_ended(is_durable=True)
    made.turn.commit_ended([HERE, THERE], is_durable=True)
    assert made.act(7) is None
    assert made.states() == [RefreshState.DONE] * 2
    assert made.session.may_send(HERE)
    assert not made.turn.is_alive


def test_without_an_answer_for_ten_minutes_it_is_given_up() -> None:
    made = Subscriber(HERE)
    assert isinstance(made.act(0), SendReset)
    assert isinstance(made.act(GIVE_UP_MS - 1), SendReset)
    end = made.act(GIVE_UP_MS)
    assert isinstance(end, End)
    assert end.reason == "refresh-given-up"
    assert made.states() == [RefreshState.GIVEN_UP]


def test_a_cancelled_refresh_ends_the_connection_only_if_reset_was_sent() -> None:
    told, untold = Subscriber(HERE), Subscriber(HERE)
    assert isinstance(told.act(0), SendReset)
    for made in (told, untold):
        entry = decide(made.entry, Cancel("r"), 1)
        assert entry is not None
        made.entry = entry
    turn = turn_of(told.turn, told.session, "t", told.entry)
    assert turn is not None
    assert isinstance(turn.next(2), End)

    assert untold.act(2) is None
    assert untold.session.may_send(HERE)
    assert not untold.turn.is_alive


def test_a_step_that_another_subscriber_has_overtaken_ends_the_connection() -> None:
    made = Subscriber(HERE)
    reset = made.act(0)
    assert isinstance(reset, SendReset)
    made.turn.answered(reset.frame_id, {})
    write = made.turn.next(1)
    assert isinstance(write, Write)
    assert write.step == Move("r", RefreshState.REPLAYING, {0: 1})
    made.turn.wrote(write, None, 1, 1)
    end = made.turn.next(1)
    assert isinstance(end, End)
    assert end.reason == "refresh-over"


def test_an_ack_of_reset_is_not_taken_for_one_of_ready() -> None:
    made = Subscriber(HERE)
    first, second = made.act(0), made.act(RESET_RETRY_MS)
    assert isinstance(first, SendReset)
    assert isinstance(second, SendReset)
    made.turn.answered(first.frame_id, {})
    made.replay(HERE, 6_000)
    assert isinstance(made.act(6_001), SendReady)

    made.turn.answered(second.frame_id, {})
    assert not made.session.has_commits


def test_a_position_outside_of_the_refresh_begins_at_the_start() -> None:
    made = Subscriber(HERE)
    reset = made.act(0)
    assert isinstance(reset, SendReset)
    made.turn.answered(reset.frame_id, {HERE: Place(3, 1)})
    assert made.session.cursors[HERE].place == Place(0)


def test_a_commit_that_fails_sends_ready_again() -> None:
    made = Subscriber(HERE)
    reset = made.act(0)
    assert isinstance(reset, SendReset)
    made.turn.answered(reset.frame_id, {HERE: Place(2, 1)})
    ready = made.act(1)
    assert isinstance(ready, SendReady)
    made.turn.answered(ready.frame_id, {})
    made.session.next_commit()
    made.session.commit_ended(is_durable=False)
    made.turn.commit_ended([HERE], is_durable=False)
    assert isinstance(made.act(1 + READY_RETRY_MS), SendReady)
