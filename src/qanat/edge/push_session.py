"""A subscription in mode `log` or `all`: what was sent, what is acknowledged, what is to be committed.

Frames that need an answer are numbered from 1; an ACK answers its frame and all before it. In `log`, what is
acknowledged becomes a commit. One commit is under way at a time; acknowledgements meanwhile are merged into the next.

Rule 1: an acknowledgement counts for the assignment in which its frame was sent. A partition that was revoked, reset or
        assigned again since is not committed by it.
Rule 2: records of a partition are sent in order and without gaps, from where the assignment began.
Rule 3: nothing is sent for a partition between RESET and its ACK.
Rule 4: what is replayed for a refresh is not committed: until READY is acknowledged, the commit is about the records
        that the subscriber serves. Nothing beyond the captured end is sent before. RESET and READY of a refresh are
        answered by their own ACKs alone (`refresh_turn`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import ACK_TIMEOUT_MS, WrongFrameError
from qanat.model.ids import TopicPartition

LAG_MS = 10
"""A subscriber lags that owes an answer for this much longer than it takes at its quickest."""
NO_LIMIT = 2**63
TAKEN_BACK = "taken-back"
_HELD = -1


class Place(NamedTuple):
    """The next offset of a partition, and the leader epoch of the record before it."""

    offset: int
    epoch: int = -1


@dataclass(slots=True)
class Cursor:
    """One assigned partition."""

    place: Place
    assignment: int
    reset_id: int = 0
    """The RESET that the client has not acknowledged; 0 where there is none, -1 while a refresh holds it."""
    floor: int = -1
    """What COMMIT_OFFSET said: an ACK of frames before it does not go back."""
    limit: int = NO_LIMIT
    """Where a replay ends."""
    limit_epoch: int = -1

    @property
    def is_replaying(self) -> bool:
        return self.limit != NO_LIMIT


class _Sent(NamedTuple):
    id: int
    at: TopicPartition
    assignment: int
    end: Place
    records: int
    size: int
    sent_ms: int


class PushSession:
    """One subscription of one connection."""

    def __init__(
        self, credit: CreditWindow, now_ms: int, *, is_committing: bool, ack_timeout_ms: int = ACK_TIMEOUT_MS
    ) -> None:
        """`is_committing` in mode `log`."""
        self.credit = credit
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._is_committing = is_committing
        self._ack_timeout_ms = ack_timeout_ms
        self._unacknowledged: deque[_Sent] = deque()
        self._last_id = 0
        self._announced: set[int] = set()
        """RESET and READY of refreshes that are not acknowledged."""
        self.told: dict[TopicPartition, str] = {}
        """Partitions of which the client takes records for those of a refresh, and its id."""
        self._assignments = 0
        self._former_ends: dict[TopicPartition, int] = {}
        """How far partitions were sent before they were reset, revoked or assigned again."""
        self._acked_ms = now_ms
        self.acknowledged_id = 0
        self._quickest_ms = -1
        """The shortest time in which an ACK came: its way, and what the client does at least; -1 before the first."""
        self._wanted: dict[TopicPartition, Place] = {}
        self._committing: dict[TopicPartition, Place] = {}
        self._committing_for: dict[TopicPartition, int] = {}
        """The assignments of what is being committed."""
        self.committed: dict[TopicPartition, Place] = {}
        """The latest commits that are durable, for those who look at the session."""

    # Assignments

    def assign(self, at: TopicPartition, place: Place) -> None:
        """Deliver a partition from here on."""
        self._assignments += 1
        self._note_end(at)
        self.cursors[at] = Cursor(place, self._assignments)

    def revoke(self, at: TopicPartition) -> None:
        """Deliver it no longer. What is acknowledged may still be committed until `forget`."""
        self._note_end(at)
        self.cursors.pop(at, None)

    def forget(self, at: TopicPartition) -> None:
        """Another member has the partition: nothing of it is committed any more."""
        self._note_end(at)
        self.cursors.pop(at, None)
        self._wanted.pop(at, None)

    def _note_end(self, at: TopicPartition) -> None:
        """A cursor ends or goes back."""
        cursor = self.cursors.get(at)
        if cursor is not None:
            self._former_ends[at] = max(cursor.place.offset, self._former_ends.get(at, -1))

    # Deliveries

    def may_send(self, at: TopicPartition) -> bool:
        """Whether records of a partition may be read and sent now."""
        cursor = self.cursors.get(at)
        if cursor is None or cursor.reset_id or cursor.place.offset >= cursor.limit:
            return False
        return self.credit.is_open

    def sent(self, at: TopicPartition, end: Place, records: int, size: int, now_ms: int) -> int:
        """Records up to `end` leave; returns the id of their frame."""
        cursor = self.cursors[at]
        assert not cursor.reset_id, "nothing is sent between RESET and its ACK"
        assert end.offset > cursor.place.offset, "in order, without repetition"
        cursor.place = end
        self.credit.take(records, size)
        return self._numbered(at, cursor, end, records, size, now_ms)

    def skip(self, at: TopicPartition, end: Place) -> None:
        """Pass over offsets without records for consumers: markers, aborted and compacted ones."""
        self.cursors[at].place = end

    def reset(self, at: TopicPartition, place: Place, now_ms: int) -> int:
        """What the client has from here on is void; returns the id of the RESET."""
        self._assignments += 1
        self._note_end(at)
        cursor = self.cursors[at]
        cursor.assignment, cursor.place = self._assignments, place
        if not cursor.is_replaying:
            cursor.floor = -1
            self._wanted.pop(at, None)
        cursor.reset_id = self._numbered(at, cursor, place, 0, 0, now_ms)
        return cursor.reset_id

    def _numbered(self, at: TopicPartition, cursor: Cursor, end: Place, records: int, size: int, now_ms: int) -> int:
        self._last_id += 1
        self._unacknowledged.append(_Sent(self._last_id, at, cursor.assignment, end, records, size, now_ms))
        return self._last_id

    # Refreshes

    def hold(self, at: TopicPartition) -> None:
        """A refresh begins: nothing more is sent until its RESET is acknowledged."""
        self.cursors[at].reset_id = _HELD

    def release(self, at: TopicPartition) -> None:
        """The refresh was over already: go on as before."""
        cursor = self.cursors[at]
        if cursor.reset_id == _HELD:
            cursor.reset_id = 0

    def announce(self) -> int:
        """Number a RESET or READY of a refresh, which its own ACK answers."""
        self._last_id += 1
        self._announced.add(self._last_id)
        return self._last_id

    def is_answer(self, frame_id: int, now_ms: int) -> bool:
        """Whether an ACK answers a RESET or READY of a refresh; each counts once."""
        if frame_id not in self._announced:
            return False
        self._announced.discard(frame_id)
        self._acked_ms = now_ms
        return True

    def replay(self, at: TopicPartition, place: Place, end: Place) -> None:
        """RESET is acknowledged: send the records again, from here to a captured end."""
        self._assignments += 1
        self.cursors[at] = Cursor(place, self._assignments, floor=NO_LIMIT, limit=end.offset, limit_epoch=end.epoch)

    def clip(self, at: TopicPartition, end: int) -> None:
        """The log was cut below the captured end."""
        self.cursors[at].limit = end

    def is_replayed(self, at: TopicPartition) -> bool:
        """Whether all records up to the end are sent and acknowledged."""
        cursor = self.cursors[at]
        if cursor.reset_id or cursor.place.offset < cursor.limit:
            return False
        return all(one.at != at or one.assignment != cursor.assignment for one in self._unacknowledged)

    def switched(self, at: TopicPartition) -> None:
        """READY is acknowledged: the end of the replay is what is to be committed."""
        self._wanted[at] = self.cursors[at].place

    def go_on(self, at: TopicPartition) -> None:
        """The refresh is over: records after its end follow."""
        cursor = self.cursors[at]
        cursor.limit, cursor.floor = NO_LIMIT, -1

    # Acknowledgements

    def acknowledge(self, frame_id: int, now_ms: int) -> None:
        """An ACK: its frame and all before it are processed."""
        if frame_id > self._last_id or frame_id < 1:
            raise WrongFrameError("unknown-id", f"ACK of frame {frame_id}, the last one sent is {self._last_id}")
        self._acked_ms = now_ms
        self.acknowledged_id = max(self.acknowledged_id, frame_id)
        unacknowledged = self._unacknowledged
        sent: _Sent | None = None
        while unacknowledged and unacknowledged[0].id <= frame_id:
            sent = unacknowledged.popleft()
            self.credit.give_back(sent.records, sent.size)
            cursor = self.cursors.get(sent.at)
            if cursor is None or cursor.assignment != sent.assignment:
                continue
            if cursor.reset_id == sent.id:
                cursor.reset_id = 0
            if self._is_committing and sent.end.offset >= cursor.floor:
                self._wanted[sent.at] = sent.end
        if sent is not None and sent.id == frame_id and not 0 <= self._quickest_ms <= now_ms - sent.sent_ms:
            self._quickest_ms = now_ms - sent.sent_ms

    def is_lagging(self, now_ms: int) -> bool:
        """Whether the client owes an answer for so long that it must have records in hand."""
        unacknowledged = self._unacknowledged
        return bool(unacknowledged) and now_ms - unacknowledged[0].sent_ms > LAG_MS + 2 * max(self._quickest_ms, 0)

    @property
    def unacknowledged(self) -> int:
        return len(self._unacknowledged)

    def unacknowledged_records(self) -> dict[TopicPartition, int]:
        """Records of each assigned partition that were sent and not acknowledged."""
        found: dict[TopicPartition, int] = {}
        for sent in self._unacknowledged:
            cursor = self.cursors.get(sent.at)
            if cursor is not None and cursor.assignment == sent.assignment:
                found[sent.at] = found.get(sent.at, 0) + sent.records
        return found

    def is_overdue(self, now_ms: int) -> bool:
        """Whether the client of a log has held frames for too long: the next member resumes at the commit."""
        if not self._is_committing or not self._unacknowledged:
            return False
        return now_ms - max(self._acked_ms, self._unacknowledged[0].sent_ms) >= self._ack_timeout_ms

    # Commits

    def commit(self, positions: Mapping[TopicPartition, Place]) -> None:
        """COMMIT_OFFSET: commit these next. Raises where one is not assigned, was not sent yet, or was taken back."""
        if not self._is_committing:
            raise WrongFrameError("no-group", "COMMIT_OFFSET needs a subscription in mode log, with a group")
        for at, place in positions.items():
            self._check_commit(at, place)
        for at, place in positions.items():
            self.cursors[at].floor = place.offset
        self._wanted.update(positions)

    def _check_commit(self, at: TopicPartition, place: Place) -> None:
        cursor, former_end = self.cursors.get(at), self._former_ends.get(at, -1)
        if place.offset < 0:
            raise WrongFrameError("malformed", f"offset {place.offset} of {at} is none: name the next one to read")
        if cursor is not None and cursor.is_replaying:
            raise WrongFrameError("refreshing", f"{at} is being refreshed: the ACK of READY commits its end")
        if cursor is not None and place.offset <= cursor.place.offset:
            return
        if place.offset <= former_end:
            # A well-behaved client may say so: its frame has crossed the RESET, or does not know of the rebalance.
            raise WrongFrameError(TAKEN_BACK, f"a RESET or a rebalance took {at} back below offset {place.offset}")
        if cursor is None:
            raise WrongFrameError("not-assigned", f"{at} is not assigned to this subscription")
        raise WrongFrameError("not-sent", f"{at} was sent up to {cursor.place.offset}, not {place.offset}")

    @property
    def has_commits(self) -> bool:
        """Whether acknowledgements are not committed yet."""
        return bool(self._wanted) or bool(self._committing)

    def has_commits_of(self, partitions: Iterable[TopicPartition]) -> bool:
        """The same for some partitions."""
        return any(at in self._wanted or at in self._committing for at in partitions)

    def next_commit(self) -> dict[TopicPartition, Place] | None:
        """What to commit now; None while a commit is under way, or where there is nothing."""
        if self._committing or not self._wanted:
            return None
        self._committing, self._wanted = self._wanted, {}
        cursors = self.cursors
        self._committing_for = {at: cursors[at].assignment for at in self._committing if at in cursors}
        return self._committing

    def commit_ended(self, *, is_durable: bool) -> None:
        """The commit is durable, or was refused: what was refused belongs to another member now."""
        if is_durable:
            self.committed.update(self._committing)
        self._committing = {}

    def commit_failed(self) -> None:
        """Nobody answered: what is still ours, and was not acknowledged further meanwhile, is committed again."""
        for at, place in self._committing.items():
            cursor = self.cursors.get(at)
            if cursor is not None and cursor.assignment == self._committing_for.get(at):
                self._wanted.setdefault(at, place)
        self._committing = {}


_NOWHERE = TopicPartition("", -1)
