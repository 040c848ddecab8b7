"""Bugs that a push server could have, put into the cores; the sweep must find each of them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from qanat.connection.push import receiving
from qanat.edge import push_queue, push_session, resume
from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import PushDialogue
from qanat.edge.push_queue import Held, PushQueue
from qanat.edge.push_session import Place, PushSession
from qanat.edge.resume import Extent, Resumed
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Verdict
from verify.clusters.bug_bank.bug import Patches
from verify.push import broker
from verify.push.model import PushMismatchError
from verify.push.run import PushRun


class PushBug(Struct, frozen=True):
    """One bug, as a patch of a core."""

    put_in: Callable[[Patches], None]
    found_at: int
    """The first seed that showed it in the last search."""

    @property
    def name(self) -> str:
        return self.put_in.__name__


def search(bug: PushBug, most_seeds: int, first_seed: int = 1) -> int:
    """The first seed that shows a bug; 0 where none does."""
    with Patches() as patches:
        bug.put_in(patches)
        for seed in range(first_seed, first_seed + most_seeds):
            try:
                PushRun(seed).run()
            except (PushMismatchError, AssertionError):
                return seed
    return 0


def commit_what_is_sent(patches: Patches) -> None:
    """A commit moves with the delivery, not with its acknowledgement."""
    sent = PushSession.sent

    def committed(self: PushSession, at: TopicPartition, end: Place, records: int, size: int, now_ms: int) -> int:
        if self._is_committing:
            self._wanted[at] = end
        return sent(self, at, end, records, size, now_ms)

    patches.put(PushSession, "sent", committed)


def commit_for_an_earlier_assignment(patches: Patches) -> None:
    """An acknowledgement counts although its partition was assigned again, or reset, since."""
    acknowledge = PushSession.acknowledge

    def acknowledged(self: PushSession, frame_id: int, now_ms: int) -> None:
        late = [one for one in self._unacknowledged if one.id <= frame_id and one.at in self.cursors]
        acknowledge(self, frame_id, now_ms)
        for one in late:
            if one.records and self._is_committing:
                self._wanted[one.at] = one.end

    patches.put(PushSession, "acknowledge", acknowledged)


def go_on_without_the_ack_of_a_reset(patches: Patches) -> None:
    """Records follow RESET at once, while acknowledgements of what is void are on their way: they end the wait."""
    acknowledge = PushSession.acknowledge

    def acknowledged(self: PushSession, frame_id: int, now_ms: int) -> None:
        acknowledge(self, frame_id, now_ms)
        for cursor in self.cursors.values():
            if cursor.reset_id:
                cursor.place = Place(cursor.place.offset + 1, cursor.place.epoch)

    patches.put(PushSession, "acknowledge", acknowledged)


def commit_what_a_former_member_was_sent(patches: Patches) -> None:
    """A member that loses a partition commits what it was sent, not what it acknowledged."""

    def forget(self: PushSession, at: TopicPartition) -> None:
        cursor = self.cursors.get(at)
        if cursor is not None:
            self._wanted[at] = cursor.place

    patches.put(PushSession, "revoke", forget)


def keep_credit_of_lost_partitions(patches: Patches) -> None:
    """What was on its way of a revoked partition is never given back: the credit runs out."""
    acknowledge = PushSession.acknowledge

    def acknowledged(self: PushSession, frame_id: int, now_ms: int) -> None:
        lost = [one for one in self._unacknowledged if one.id <= frame_id and one.at not in self.cursors]
        acknowledge(self, frame_id, now_ms)
        for one in lost:
            self.credit.take(one.records, one.size)

    patches.put(PushSession, "acknowledge", acknowledged)


def send_beyond_the_credit(patches: Patches) -> None:
    """The credit is looked at once per read, not for every record."""
    patches.put(CreditWindow, "fits", lambda self, records, size: True)
    patches.put(CreditWindow, "is_open", property(lambda self: self.out_records <= self.max_records))


def resume_by_offset_alone(patches: Patches) -> None:
    """The epoch of a subscriber is not looked at: it keeps records that the log has lost."""

    def resumed(offset: int, extent: Extent) -> Resumed:
        return Resumed(min(max(offset, extent.start), extent.end))

    patches.put(broker, "resume", resumed)


def resume_at_the_end_after_truncation(patches: Patches) -> None:
    """A subscriber whose history was cut continues at the end of the log, and misses what was written since."""
    before = resume.resume

    def resumed(offset: int, extent: Extent) -> Resumed:
        found = before(offset, extent)
        return Resumed(extent.end, found.why) if found.why else found

    patches.put(broker, "resume", resumed)


def begin_after_the_commit(patches: Patches) -> None:
    """A new member begins one record after the commit."""
    assign = PushSession.assign

    def assigned(self: PushSession, at: TopicPartition, place: Place) -> None:
        moved = Place(place.offset + 1, place.epoch) if self._is_committing and place.offset else place
        assign(self, at, moved)

    patches.put(PushSession, "assign", assigned)


def never_drop_a_silent_client(patches: Patches) -> None:
    """A dead connection keeps its partitions for ever."""
    patches.put(PushDialogue, "is_dead", lambda self, now_ms: False)
    patches.put(PushSession, "is_overdue", lambda self, now_ms: False)


def drop_a_live_client(patches: Patches) -> None:
    """Only frames that are answered count as a sign of life: an idle client is dropped again and again."""
    patches.put(PushDialogue, "is_heartbeat_due", lambda self, now_ms: False)
    patches.put(PushDialogue, "is_dead", lambda self, now_ms: now_ms - self.heard_ms >= 900)


def forget_the_credit_of_a_release(patches: Patches) -> None:
    """A released record stays counted as held: the worker gets nothing any more."""
    settle = PushQueue.settle

    def settled(self: PushQueue, frame_id: int, verdict: Verdict) -> Held | None:
        held = settle(self, frame_id, verdict)
        if held is not None and verdict is Verdict.RELEASE:
            self.credit.take(1, held.size)
        return held

    patches.put(PushQueue, "settle", settled)


def acknowledge_over_a_gap(patches: Patches) -> None:
    """The client acknowledges the newest frame that has arrived, although earlier ones are not processed."""

    def done(self: receiving.CumulativeAcks, frame_id: int) -> int:
        newest = max(self._open, default=0)
        self._open.clear()
        return newest

    patches.put(receiving.CumulativeAcks, "done", done)


def lose_the_next_commit(patches: Patches) -> None:
    """What is acknowledged while a commit is under way is dropped when that one ends."""
    ended = push_session.PushSession.commit_ended

    def commit_ended(self: PushSession, *, is_durable: bool) -> None:
        ended(self, is_durable=is_durable)
        self._wanted.clear()

    patches.put(push_session.PushSession, "commit_ended", commit_ended)


def settle_twice(patches: Patches) -> None:
    """A verdict gives the credit back each time it comes."""

    def settled(self: push_queue.PushQueue, frame_id: int, verdict: Verdict) -> Held | None:
        held = self.held.get(frame_id)
        if held is not None:
            self.credit.out_records = max(0, self.credit.out_records - 2)
        return held

    patches.put(push_queue.PushQueue, "settle", settled)


BUGS = (
    PushBug(commit_what_is_sent, 1),
    PushBug(commit_for_an_earlier_assignment, 85),
    PushBug(go_on_without_the_ack_of_a_reset, 35),
    PushBug(commit_what_a_former_member_was_sent, 15),
    PushBug(keep_credit_of_lost_partitions, 57),
    PushBug(send_beyond_the_credit, 2),
    PushBug(resume_by_offset_alone, 6),
    PushBug(resume_at_the_end_after_truncation, 6),
    PushBug(begin_after_the_commit, 2),
    PushBug(never_drop_a_silent_client, 19),
    PushBug(drop_a_live_client, 1),
    PushBug(forget_the_credit_of_a_release, 2),
    PushBug(acknowledge_over_a_gap, 2),
    PushBug(lose_the_next_commit, 2),
    PushBug(settle_twice, 4),
)
