"""The root: partitions that producers write to, with failovers and retention, and the targets of the way up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qanat.edge import up_flow
from qanat.edge.mirror import Answered, Gap
from qanat.edge.up_flow import Already, AppendUpload, Mark, Named, RefuseUpload
from qanat.model.ids import LeaderEpoch, Offset
from verify.edge.logs import ModelBatch, ModelLog
from verify.edge.world import Machine, World

Reply = tuple[Answered, tuple[ModelBatch, ...]]


@dataclass
class TargetPartition:
    """A partition that one child's outbox goes to: its records and the mark, in one transaction."""

    number: int = 1
    """Rises when the topic is deleted and made again."""
    records: list[int] = field(default_factory=list)
    stored: Mark | None = None
    """The mark, committed with the records."""
    mark: Mark | None = None
    """The same, as the process of the child that began last was told."""
    epoch: int = -1
    staged: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Uploads, which promise nothing: they go with a kill."""

    @property
    def topic_id(self) -> str:
        return f"up-{self.number}"


class Origin(Machine):
    """The ROOT node: a cluster of its own, of which only its logs matter here."""

    def __init__(self, world: World, name: str, partitions: int) -> None:
        super().__init__(name)
        self.life = 1
        self._world = world
        self.logs = [ModelLog() for _ in range(partitions)]
        self.epoch = [0] * partitions
        self.high_watermark = [0] * partitions
        self.truth: list[dict[int, ModelBatch]] = [{} for _ in range(partitions)]
        """What the partition holds and held, by base offset: retention removes nothing here, an election does."""
        self.committed: dict[ModelBatch, None] = {}
        """Every batch that was ever below the high watermark."""
        self.targets: dict[str, TargetPartition] = {}
        self._value = 0

    def path(self) -> tuple[str, ...]:
        return (self.name,)

    def restart(self) -> None:
        """A kill of the broker: uploads that nobody has named are gone."""
        self.life += 2
        for target in self.targets.values():
            target.staged.clear()

    # Producers and leaders

    def produce(self, number: int) -> None:
        """Append a batch of one to three records."""
        log = self.logs[number]
        self._value += 1
        base, size = log.end_offset, self._world.random.randint(1, 3)
        batch = ModelBatch(base, base + size, self.epoch[number], b"%d of %d" % (self._value, number))
        log.append(batch)
        self.truth[number][base] = batch

    def commit(self, number: int) -> None:
        """The in-sync replicas have everything."""
        log = self.logs[number]
        self.high_watermark[number] = log.end_offset
        self.committed.update(dict.fromkeys(log.batches))
        log.flush()
        self._world.wake(self)

    def elect(self, number: int, *, is_unclean: bool) -> None:
        """Another leader: it lacks what was not committed, and after an unclean election more than that."""
        log, draw = self.logs[number], self._world.random
        end = self.high_watermark[number]
        if is_unclean:
            end = max(log.start, end - draw.randint(1, 6))
        log.truncate(end)
        # A batch across the new end goes whole, also where the log starts inside it and cannot end before it.
        for batch in [one for one in self.truth[number].values() if one.next_offset > end]:
            del self.truth[number][batch.base_offset]
        self.high_watermark[number] = min(self.high_watermark[number], log.end_offset)
        self.epoch[number] += draw.randint(1, 3)
        log.epochs.assign(LeaderEpoch(self.epoch[number]), Offset(log.end_offset))

    def retain(self, number: int) -> None:
        log = self.logs[number]
        span = self.high_watermark[number] - log.start
        if span > 4:
            log.retain_from(log.start + self._world.random.randint(1, span - 1))

    # The pipe's parent side

    def pull(self, number: int, offset: int, epoch: int, most: int) -> Reply:
        return self.logs[number].answer(offset, epoch, most, self.high_watermark[number], ())

    def recorded_gaps(self, number: int) -> tuple[Gap, ...]:
        return ()

    # The way up

    def target(self, child: str) -> TargetPartition:
        return self.targets.setdefault(child, TargetPartition())

    def begin_up(self, child: str, base: int) -> Mark:
        target = self.target(child)
        target.epoch += 1
        begun = up_flow.begin(target.stored, target.topic_id, base)
        target.mark = Mark(begun.topic_id, begun.end, target.epoch)
        return target.mark

    def remake_target(self, child: str, *, keeps_mark: bool) -> None:
        """The topic is deleted and made again; its mark goes, or is left by a backup, with the id of the former."""
        target = self.target(child)
        target.number += 1
        target.records, target.staged = [], {}
        if not keeps_mark:
            target.stored = None

    def upload(self, child: str, first: int, end: int, records: list[int]) -> None:
        self.target(child).staged[first, end] = records

    def append_upload(self, child: str, named: Named, reply: Callable[[Mark | None], None]) -> None:
        """Append what an upload holds; the answer is the mark, or None where the child must ask."""
        target = self.target(child)
        decided = up_flow.decide(target.mark, named, target.topic_id)
        match decided:
            case AppendUpload():
                records = target.staged.pop((named.first, named.end), None)
                if records is None:
                    reply(None)  # The upload is gone: it was never promised.
                    return
                target.records += records
                target.mark = target.stored = decided.mark
                reply(decided.mark)
            case Already():
                reply(decided.mark)
            case RefuseUpload():
                reply(None)
