"""Lanes: which record may run next, in which order, and what may be committed. A pure core.

Records of one lane run one after another, in the order of their offsets. A lane is a key (`order="key"`), a
partition (`"partition"`), or a single record (`"none"`). A record without a key is a lane of its own, so that null
keys spread instead of waiting for each other.

Rule 1: nothing is committable past an unfinished record (`OffsetTracker`).
Rule 2: a record that waits for its retry occupies its lane and no slot: its key waits, other keys go on.
Rule 3: memory is bounded: at most `held_max` unfinished records; a partition that is further than `ahead_max` offsets
        ahead of its lowest unfinished record takes no more until that one is finished.
Rule 4: a partition that is held back begins nothing until it is released; it takes no more records meanwhile, and what
        waits there leaves room for others, at most `held_max` records.
Rule 5: revoked partitions are forgotten in one step. What ran there may end, but no longer counts.

The asyncio shell is `stream_worker.py`: it polls, runs handlers in slots, and commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Generic, Literal, Protocol, TypeVar

from qanat.client.app.offset_tracker import OffsetTracker
from qanat.model.ids import TopicPartition

Order = Literal["key", "partition", "none"]
AHEAD_MAX = 100_000
"""How many offsets a partition may be ahead of a stuck record: what a crash handles again, at most."""


class Keyed(Protocol):
    """What lanes need of a record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> object: ...


R = TypeVar("R", bound=Keyed)


class Work(Generic[R]):
    """One record on its way through its lane."""

    __slots__ = ("attempt", "failed_s", "lane", "place", "record", "result")

    def __init__(self, record: R, place: PartitionLanes[R], lane: object) -> None:
        self.record = record
        self.place = place
        self.lane = lane
        self.attempt = 1
        self.failed_s = -1.0
        """When its first attempt failed; -1 before."""
        self.result: object = None
        """What is to be written in the transaction that commits this record; None where nothing is."""

    @property
    def is_revoked(self) -> bool:
        """Whether its partition belongs to another member by now."""
        return self.place.is_revoked


class PartitionLanes(Generic[R]):
    """The lanes and offsets of one partition."""

    __slots__ = (
        "at", "committed", "is_open", "is_paused", "is_revoked", "lanes", "offered", "parked", "results", "running",
        "tracker",
    )  # fmt: skip

    def __init__(self, at: TopicPartition) -> None:
        self.at = at
        self.lanes: dict[object, deque[Work[R]] | None] = {}
        """Lanes with unfinished records; those that wait behind the first, if any."""
        self.tracker = OffsetTracker()
        self.running = 0
        self.committed = -1
        """The offset of the last commit that succeeded."""
        self.offered = -1
        """The offset that was given to be committed last; -1 before the first."""
        self.results: dict[int, object] = {}
        """What handlers returned for records that are finished and not committed, by offset."""
        self.is_paused = False
        self.is_open = True
        """Whether records of it may begin."""
        self.is_revoked = False
        self.parked: deque[Work[R]] | None = None
        """Records that do not begin until `release`; None where the partition is not held back."""


class Lanes(Generic[R]):
    """All lanes of one handler in one worker."""

    def __init__(self, order: Order, concurrency: int, *, held_max: int = 0, ahead_max: int = AHEAD_MAX) -> None:
        self._order = order
        self._concurrency = concurrency
        self._held_max = held_max or max(1000, 4 * concurrency)
        self._ahead_max = ahead_max
        self._partitions: dict[TopicPartition, PartitionLanes[R]] = {}
        self._ready: deque[Work[R]] = deque()
        self._delayed: list[tuple[float, int, Work[R]]] = []
        self._delays = 0
        self._parked = 0
        self.held = 0
        """Unfinished records: those that run, wait for their lane, or wait for their retry."""
        self.running = 0

    # Records come

    @property
    def room(self) -> int:
        """How many records may be admitted now."""
        return self._held_max - self.held + min(self._parked, self._held_max)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions belong to this member; records of others are ignored."""
        for at in partitions:
            if at not in self._partitions:
                self._partitions[at] = PartitionLanes(at)

    def admit(self, records: Iterable[R]) -> None:
        """Take records, in the order of their offsets per partition.

        A poll may return records of a partition that was revoked meanwhile, or some that are known: these are ignored.
        """
        partitions, ready, order = self._partitions, self._ready, self._order
        place: PartitionLanes[R] | None = None
        begin = _ignore
        topic, partition = "", -1
        count = 0
        for record in records:
            if record.partition != partition or record.topic != topic:
                topic, partition = record.topic, record.partition
                place = partitions.get(TopicPartition(topic, partition))
                begin = _ignore if place is None else place.tracker.begin
            if not begin(record.offset) or place is None:
                continue
            count += 1
            lane = record.key if order == "key" else place.at if order == "partition" else None
            work = Work(record, place, lane)
            if lane is None:
                ready.append(work)
            elif lane not in place.lanes:
                place.lanes[lane] = None
                ready.append(work)
            else:
                waiting = place.lanes[lane]
                if waiting is None:
                    waiting = place.lanes[lane] = deque()
                waiting.append(work)
        self.held += count

    # Records run

    def take(self) -> Work[R] | None:
        """The next record to run; None where none is ready, or all slots are taken."""
        ready = self._ready
        if self.running >= self._concurrency:
            return None
        while ready:
            work = ready.popleft()
            if work.place.parked is not None:
                work.place.parked.append(work)
                self._parked += 1
                continue
            if work.place.is_open:
                self.running += 1
                work.place.running += 1
                return work
        return None

    @property
    def startable(self) -> int:
        """How many records could be taken now, at most."""
        return min(len(self._ready), self._concurrency - self.running)

    def finish(self, work: Work[R]) -> None:
        """A record is done: handled, dead-lettered or skipped. The next of its lane is ready."""
        self.running -= 1
        place = work.place
        place.running -= 1
        if place.is_revoked:
            return
        place.tracker.finish(work.record.offset)
        self.held -= 1
        if work.result is not None:
            place.results[work.record.offset] = work.result
        lane = work.lane
        if lane is None:
            return
        waiting = place.lanes[lane]
        if waiting:
            self._ready.append(waiting.popleft())
        else:
            del place.lanes[lane]

    def retry(self, work: Work[R], due_s: float) -> None:
        """A record failed: it keeps its lane, gives up its slot, and is ready again at `due_s`."""
        self.running -= 1
        work.place.running -= 1
        if not work.place.is_open:
            return
        work.attempt += 1
        self._delays += 1
        heappush(self._delayed, (due_s, self._delays, work))

    def wake(self, now_s: float) -> float | None:
        """Make ready what is due, and say when the next retry is; None where there is none."""
        delayed = self._delayed
        while delayed and (delayed[0][0] <= now_s or not delayed[0][2].place.is_open):
            work = heappop(delayed)[2]
            if work.place.is_open:
                # First in line: its key has waited longest.
                self._ready.appendleft(work)
        return delayed[0][0] if delayed else None

    # Partitions that are held back

    def hold_back(self, work: Work[R]) -> None:
        """A record failed: it and what follows in its partition do not begin until `release`."""
        self.running -= 1
        place = work.place
        place.running -= 1
        if not place.is_open:
            return
        if place.parked is None:
            place.parked = deque()
        place.parked.appendleft(work)
        self._parked += 1

    def release(self) -> list[TopicPartition]:
        """Go on with all partitions that are held back, each with the record that failed; returns them."""
        released = []
        for place in self._partitions.values():
            if place.parked is None:
                continue
            released.append(place.at)
            for work in reversed(place.parked):
                work.attempt, work.failed_s = 1, -1.0
                self._ready.appendleft(work)
            place.parked = None
        self._parked = 0
        return released

    # Back-pressure

    def throttle(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Partitions to pause and to resume: held back or too far ahead of a stuck record; released or caught up."""
        pause, resume = [], []
        for place in self._partitions.values():
            ahead = place.tracker.ahead
            is_held_back = place.parked is not None
            if not place.is_paused and (ahead >= self._ahead_max or is_held_back):
                place.is_paused = True
                pause.append(place.at)
            elif place.is_paused and ahead <= self._ahead_max // 2 and not is_held_back:
                place.is_paused = False
                resume.append(place.at)
        return pause, resume

    # Offsets

    def committable(self) -> dict[TopicPartition, int]:
        """Offsets that are ahead of the last commit."""
        found = {}
        for at, place in self._partitions.items():
            if place.tracker.committable > place.committed:
                found[at] = place.offered = place.tracker.committable
        return found

    def committed(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """A commit succeeded. A partition that was lost and assigned again meanwhile begins anew."""
        for at, offset in offsets:
            place = self._partitions.get(at)
            if place is not None and place.offered >= 0:
                assert offset <= place.tracker.committable, "committed past an unfinished record"
                place.committed = max(place.committed, offset)
                if place.results:
                    place.results = {one: result for one, result in place.results.items() if one >= offset}

    def results(self, offsets: Iterable[tuple[TopicPartition, int]]) -> list[object]:
        """What handlers returned below these offsets and no commit contains yet, in the order of offsets."""
        found = []
        for at, offset in offsets:
            results = self._partitions[at].results
            found += [results[one] for one in sorted(results) if one < offset]
        return found

    # Partitions go

    def withhold(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin nothing more of these partitions; what runs may finish, and its offsets still count.

        Records that have not begun stay unfinished, so that nothing past them is committed.
        """
        for at in partitions:
            if at in self._partitions:
                self._partitions[at].is_open = False

    def running_in(self, partitions: Sequence[TopicPartition]) -> int:
        """How many handlers run for these partitions."""
        return sum(self._partitions[at].running for at in partitions if at in self._partitions)

    def revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions: what still runs there no longer counts."""
        for at in partitions:
            place = self._partitions.pop(at, None)
            if place is not None:
                place.is_open, place.is_revoked = False, True
        self.held = sum(place.tracker.unfinished for place in self._partitions.values())
        self._parked = sum(len(place.parked or ()) for place in self._partitions.values())
        self._ready = deque(work for work in self._ready if work.place.is_open)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Partitions that belong to this member."""
        return list(self._partitions)

    def next_offset(self, at: TopicPartition) -> int:
        """The offset after the last record taken of a partition; -1 before the first."""
        place = self._partitions.get(at)
        return -1 if place is None else place.tracker.next_offset


def _ignore(offset: int) -> bool:
    """Begin nothing: the record's partition is not ours."""
    return False
