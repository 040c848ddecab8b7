"""What survives every process in the simulation of refreshes: logs, commits, the ledger, the consumers' stores."""

from __future__ import annotations

from dataclasses import dataclass, field

from qanat.connection.push.receiving import ResumePoint
from qanat.connection.push.refreshing import Refresh
from qanat.edge.push_session import Place
from qanat.edge.refresh_ledger import Step, begin, decide
from qanat.model.ids import TopicPartition
from qanat.model.push_refreshes import PartitionRefresh, PushRefresh, RefreshState
from qanat.wire.push.control import Reset
from verify.push.model import TOPIC, ModelLog, PushMismatchError


@dataclass
class Generation:
    """Records of one partition, from a first offset on, without gaps."""

    id: str
    start: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Epochs and values."""

    @property
    def end(self) -> int:
        return self.start + len(self.rows)

    @property
    def place(self) -> ResumePoint:
        return ResumePoint(self.end, self.rows[-1][0] if self.rows else -1)

    def cut(self, offset: int) -> None:
        del self.rows[max(offset - self.start, 0) :]


class Store:
    """The store of a consumer application, or one that several instances share: every call is one transaction."""

    def __init__(self, partitions: list[TopicPartition], *, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        self.served = {at: Generation("", 0) for at in partitions}
        self.open: dict[TopicPartition, Generation] = {}

    def reset(self, refresh: Refresh) -> dict[TopicPartition, ResumePoint]:
        """RESET of a refresh: open new generations beside those that are served; returns how far they are."""
        reached = {}
        for at, extent in refresh.partitions.items():
            known = self._of(at, refresh.id)
            if known is None:
                self.open[at] = known = Generation(refresh.id, extent.start)
            elif known is self.served[at]:
                reached[at] = min(known.place, ResumePoint(extent.end))
                continue
            reached[at] = known.place
        return reached

    def _of(self, at: TopicPartition, refresh_id: str) -> Generation | None:
        for one in (self.served[at], self.open.get(at)):
            if one is not None and one.id == refresh_id:
                return one
        return None

    def put(self, at: TopicPartition, refresh_id: str, offset: int, epoch: int, value: int) -> None:
        """A record of the served generation, or of the one that a refresh fills."""
        target = self._of(at, refresh_id) if refresh_id else self.served[at]
        if target is None and self._is_shared:
            return  # Another instance has begun a later refresh; this one learns of it soon.
        if target is None:
            raise PushMismatchError(f"{at}: record {offset} belongs to generation {refresh_id}, which was never begun")
        if offset > target.end and self._is_shared:
            return  # Of a member that has lost the partition, and commits nothing; the next one brings it again.
        if offset > target.end:
            raise PushMismatchError(f"{at}: {offset} came after {target.end} in generation {target.id or 'first'}")
        if offset < target.start:
            return  # From before the generation: a commit went back after a refresh was given up.
        there = target.rows[offset - target.start] if offset < target.end else None
        if there is None or epoch > there[0]:
            target.cut(offset)  # What was stored and not committed may be another record after an unclean election.
            target.rows.append((epoch, value))
        elif epoch == there[0] and value != there[1]:
            raise PushMismatchError(f"{at}: {offset} is not the record that it was")

    def ready(self, refresh: Refresh) -> None:
        """READY: the new generations are served from now on, all at once."""
        switched = {}
        for at, extent in refresh.partitions.items():
            found = self._of(at, refresh.id)
            if found is None and self._is_shared:
                continue
            if found is None:
                raise PushMismatchError(f"{at}: READY of {refresh.id}, which was never begun")
            if found.end < extent.end:
                raise PushMismatchError(
                    f"{at}: READY of {refresh.id} at {extent.end}, its generation ends at {found.end}"
                )
            switched[at] = found
        for at, found in switched.items():
            self.served[at] = found
            self.open.pop(at, None)

    def void(self, reset: Reset) -> None:
        """What was received from an offset on is void."""
        at = TopicPartition(reset.topic, reset.partition)
        target = self._of(at, reset.refresh) if reset.refresh else self.served[at]
        if target is not None:
            target.cut(reset.offset)

    def lose_unfinished(self) -> None:
        """A consumer that keeps what it replays in memory alone."""
        self.open.clear()


@dataclass
class RefreshDurable:
    """The state of the cluster, and of the consumers."""

    logs: dict[TopicPartition, ModelLog]
    commits: dict[TopicPartition, Place] = field(default_factory=dict)
    entry: PushRefresh | None = None
    next_value: int = 0
    begun: int = 0
    done: int = 0

    def append(self, at: TopicPartition) -> None:
        log = self.logs[at]
        log.records.append((log.epoch, self.next_value))
        self.next_value += 1

    def truncate(self, at: TopicPartition, count: int) -> None:
        log = self.logs[at]
        del log.records[max(0, log.end - count) :]
        log.epoch += 1

    def commit(self, at: TopicPartition, place: Place, store: Store) -> None:
        """A commit of the group: the generation that is served must have everything below it."""
        self.commits[at] = place
        records = self.logs[at].records
        if not 0 < place.offset <= len(records) or records[place.offset - 1][0] != place.epoch:
            return  # It is about records that an unclean election has removed.
        if store.served[at].end < place.offset:
            raise PushMismatchError(f"{at} is committed up to {place.offset}, {store.served[at].end} is served")

    def begin(self, starts: dict[TopicPartition, int], now_ms: int) -> bool:
        rows = tuple(
            PartitionRefresh(at.partition, start, self.logs[at].end, self.logs[at].epoch)
            for at, start in starts.items()
        )
        wanted = PushRefresh(id=f"r{self.begun + 1}", group="group", topic=TOPIC, begun_ms=now_ms, partitions=rows)
        made = begin(self.entry, wanted)
        if made is not None:
            self.entry, self.begun = made, self.begun + 1
        return made is not None

    def write(self, step: Step, now_ms: int) -> PushRefresh | None:
        before = self.entry
        made = decide(before, step, now_ms)
        if made is not None:
            self.entry = made
        return made

    def is_done(self, at: TopicPartition) -> bool:
        one = None if self.entry is None else self.entry.partition(at.partition)
        return one is not None and one.state is RefreshState.DONE
