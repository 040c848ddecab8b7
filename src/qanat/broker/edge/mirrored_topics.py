"""The topics of this broker that mirror a parent's: made, appended to, cut, begun again, as `edge.mirror` decides.

Rule 1: a topic that exists and is no mirror of the parent's topic is left alone, and reported.
Rule 2: a mirror takes only what has passed its own filter of keys, no more and no less (`edge.key_filter`).
Rule 3: the acts of a step are carried out in their order, each durable before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from qanat.broker.edge.edge_host import EdgeHost
from qanat.broker.edge.edge_state import EdgeState
from qanat.broker.replicas.partition import Partition
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Put
from qanat.cluster.topic_configs import MIRROR_KEYS, MIRROR_SOURCE, UP_TARGET
from qanat.cluster.topics import CreateTopic, TopicPlan, decide_add_partitions
from qanat.edge import mirror
from qanat.edge.key_filter import Keys, common, normal, of_setting, to_setting
from qanat.edge.mirror import (
    Answered,
    AppendBatches,
    Batch,
    Gap,
    GapLedger,
    GoOnAt,
    OnGap,
    Position,
    RaiseEpoch,
    RecordGap,
    Report,
    RestartAt,
    TruncateLog,
)
from qanat.log.partition_log import PartitionLog
from qanat.model.errors import CorruptBatchError, StoreUnavailableError
from qanat.model.ids import LeaderEpoch, Offset, TopicPartition
from qanat.telemetry.events import log_event
from qanat.wire.batch_header import HEADER_SIZE, read_header
from qanat.wire.pipe_answer import PipedPartition, PipedTopic, PipePosition

_EPOCH_ATTEMPTS_MAX = 10


class MirroredTopics:
    """The mirrored partitions that this broker leads."""

    def __init__(self, broker: EdgeHost, state: EdgeState, on_gap: OnGap) -> None:
        self._broker = broker
        self._state = state
        self._on_gap = on_gap
        self._ledgers: dict[TopicPartition, GapLedger] = {}
        self._begun: dict[str, set[int]] = {}
        """By topic id, the partitions of which it is stored that they begin at offset 0."""
        self._go_on: dict[TopicPartition, int] = {}
        """Partitions whose next offset lies beyond a gap that is recorded."""
        self.stopped: dict[TopicPartition, Gap] = {}
        """Partitions that wait for what their parent does not have any more."""
        self.conflicts: dict[str, str] = {}
        """Topics of the parent that cannot be mirrored, and why."""
        self.appended_records = self.appended_bytes = self.truncations = 0

    async def load(self) -> None:
        """Read the recorded gaps; those that were recorded and not skipped are forgotten."""
        stored = await self._state.gaps()
        self._begun = await self._state.begun()
        for at in self.partitions():
            topic = self._broker.metadata.image.topics[at.topic]
            ledger = GapLedger(stored.get((topic.topic_id, at.partition), ()))
            self._ledgers[at] = ledger
            if ledger.truncate(self._broker.local_replicas.partitions[at].log.end_offset):
                await self._keep(at)

    @property
    def revision(self) -> int:
        """Of this broker's metadata."""
        return self._broker.metadata.image.revision

    def partitions(self) -> list[TopicPartition]:
        """The mirrored partitions that this broker leads."""
        return [at for at, one in self._broker.local_replicas.partitions.items() if one.is_mirror]

    def gaps(self, at: TopicPartition) -> tuple[Gap, ...]:
        ledger = self._ledgers.get(at)
        return () if ledger is None else ledger.gaps

    async def ensure(
        self, offered: Sequence[PipedTopic], wanted_keys: Callable[[str], Keys | None]
    ) -> list[TopicPartition]:
        """Make the mirrors that are missing; returns the partitions to pull. `wanted_keys` is the filter by which a
        topic is wanted, None where it is not."""
        wanted: list[TopicPartition] = []
        for topic in offered:
            keys = wanted_keys(topic.topic)
            if keys is not None and await self._ensure_one(topic, keys):
                wanted += [TopicPartition(topic.topic, number) for number in range(topic.partitions)]
        ours = self._broker.local_replicas.partitions
        return [at for at in wanted if at in ours]

    async def _ensure_one(self, offered: PipedTopic, wanted: Keys) -> bool:
        image, name = self._broker.metadata.image, offered.topic
        if name in image.topics and image.overrides(name).get(UP_TARGET):
            self.conflicts.pop(name, None)
            return False  # What the node writes here goes up, perhaps to the very topic.
        if name in image.topics:
            source = image.overrides(name).get(MIRROR_SOURCE, "")
            if source == offered.topic_id:
                is_right = self._has_right_keys(name, common(normal(offered.keys), wanted))
                return is_right and await self._has_right_partitions(offered)
            what = "mirrors another topic" if source else "has records of its own"
            return self._refuse(name, f"topic {name} {what}: delete it here, or leave it out of the node's topics")
        passed = common(normal(offered.keys), wanted)
        if passed is None:
            return self._refuse(name, f"the parent has only {_listed(offered.keys)} of topic {name}")
        changes = self._broker.metadata_changes
        configs = {MIRROR_SOURCE: offered.topic_id, "cleanup.policy": "delete"}
        if passed:
            configs[MIRROR_KEYS] = to_setting(passed)
        request = CreateTopic(name, changes.new_topic_id(), offered.partitions, 1, configs=configs)
        plan = await changes.create_topic(request)
        if isinstance(plan, Rejection):
            return self._refuse(name, f"topic {name} cannot be made here: {plan.message}")
        self.conflicts.pop(name, None)
        log_event("topic is mirrored", topic=name, partitions=offered.partitions, source=offered.topic_id)
        return True

    async def _has_right_partitions(self, offered: PipedTopic) -> bool:
        """Add the partitions that the parent has more than the mirror; whether there is something to pull."""
        name, wanted = offered.topic, offered.partitions
        topic = self._broker.metadata.image.topics[name]
        own = len(topic.partitions)
        if wanted == own:
            self.conflicts.pop(name, None)
        elif wanted < own:
            self._refuse(name, f"the parent has {wanted} partitions of topic {name}, and this node {own}")
        else:
            plan = await self._grow(topic, wanted)
            if isinstance(plan, Rejection):
                self._refuse(name, f"partitions {own} to {wanted - 1} of topic {name} cannot be made: {plan.message}")
            else:
                self.conflicts.pop(name, None)
        return True

    async def _grow(self, topic: values.Topic, count: int) -> TopicPlan | Rejection:
        """Raise the partitions of a mirror to `count`. It mirrored the topic before they were: nothing that was ever in
        them may be missing in silence, so they begin at 0."""

        def decide(image: MetadataImage) -> TopicPlan | Rejection:
            return decide_add_partitions(image, topic.name, count)

        changes = self._broker.metadata_changes
        plan = await changes.carry_out(decide, is_dry_run=True)
        if isinstance(plan, Rejection):
            return plan
        await self._keep_begun({topic.topic_id: set(range(len(topic.partitions), count))})
        return await changes.carry_out(decide)

    def _has_right_keys(self, name: str, passed: Keys | None) -> bool:
        """Whether a mirror has the keys that would come now: otherwise it would lack some in silence."""
        own = self._keys(name)
        if own == passed:
            return True
        would = "no key of it" if passed is None else _listed(passed)
        why = f"topic {name} has {_listed(own)} here, and its parent would give {would}: delete it here to begin anew"
        return self._refuse(name, why)

    def _keys(self, name: str) -> Keys:
        """The filter that a mirror was made with."""
        return of_setting(self._broker.metadata.image.overrides(name).get(MIRROR_KEYS, ""))

    def _refuse(self, name: str, why: str) -> bool:
        if self.conflicts.get(name) != why:
            log_event("topic is not mirrored", level="warning", topic=name, reason=why)
        self.conflicts[name] = why
        return False

    # Pulling

    def position(self, at: TopicPartition) -> PipePosition | None:
        """Where a partition stands; None where we do not lead it now."""
        found = self._mirror(at)
        if found is None:
            return None
        own = self._position(at, found.log)
        return PipePosition(at.topic, at.partition, own.end, own.epoch, self._keys(at.topic))

    def _mirror(self, at: TopicPartition) -> Partition | None:
        found = self._broker.local_replicas.partitions.get(at)
        return found if found is not None and found.is_mirror else None

    def _position(self, at: TopicPartition, log: PartitionLog) -> Position:
        start, end = log.log_start_offset, log.end_offset
        beyond = self._go_on.get(at, 0)
        if beyond > end:
            return Position(start, beyond)
        epoch = log.epochs.epoch_at(Offset(end - 1)) if end > start else mirror.NO_EPOCH
        return Position(start, end, epoch, has_begun=end > 0 or self._has_begun(at))

    def _has_begun(self, at: TopicPartition) -> bool:
        topic = self._broker.metadata.image.topics.get(at.topic)
        return topic is not None and at.partition in self._begun.get(topic.topic_id, ())

    async def begin(self, answers: Sequence[tuple[PipedPartition, memoryview]]) -> None:
        """Store which partitions begin at offset 0 with these answers, all at once, before any is carried out."""
        begun: dict[str, set[int]] = {}
        for answered, records in answers:
            at = TopicPartition(answered.topic, answered.partition)
            found = self._mirror(at)
            if found is None or found.log.end_offset > 0 or answered.error:
                continue
            headers, _ = _batches(records)
            topic = self._broker.metadata.image.topics.get(at.topic)
            if topic is not None and mirror.begins_at_zero(self._position(at, found.log), _told(answered), headers):
                begun.setdefault(topic.topic_id, set()).add(at.partition)
        await self._keep_begun(begun)

    async def _keep_begun(self, begun: dict[str, set[int]]) -> None:
        more = {topic_id: self._begun.get(topic_id, set()) | rows for topic_id, rows in begun.items()}
        await self._state.keep_begun(more)
        self._begun |= more

    async def apply(self, answered: PipedPartition, records: memoryview, asked: PipePosition) -> mirror.Step:
        """Carry out what a parent's answer asks for."""
        at = TopicPartition(answered.topic, answered.partition)
        found = self._mirror(at)
        if found is None or answered.error:
            return mirror.Wait()
        own = self._position(at, found.log)
        if (own.end, own.epoch) != (asked.offset, asked.epoch):
            return mirror.Wait()  # The answer is about another position than the present one.
        if answered.keys != (own_keys := self._keys(at.topic)):
            given = _listed(answered.keys)
            self._refuse(at.topic, f"topic {at.topic} has {_listed(own_keys)} here, and its parent gives {given}")
            return mirror.Wait()
        headers, ends = _batches(records)
        ours = None
        if answered.diverging is not None:
            known = found.log.end_of_epoch(LeaderEpoch(answered.diverging[0]))
            ours = mirror.EpochEnd(known.epoch, known.end_offset)
        step = mirror.next_step(own, ours, _told(answered), headers, self._on_gap)
        was_stopped = self.stopped.pop(at, None)
        for act in mirror.acts(step):
            await self._carry_out(at, act, records, ends, was_stopped)
        return step

    async def _carry_out(
        self, at: TopicPartition, act: mirror.Act, records: memoryview, ends: list[int], was_stopped: Gap | None
    ) -> None:
        match act:
            case RecordGap(gap):
                if self._ledgers.setdefault(at, GapLedger()).record(gap):
                    await self._keep(at)
                    log_event(
                        "gap: records are lost here", level="error", partition=str(at), first=gap.first, end=gap.end
                    )
            case RaiseEpoch(epoch):
                await self._raise_epoch(at, epoch)
            case AppendBatches(count):
                await self._append(at, records[: ends[count - 1]])
            case GoOnAt(offset):
                self._go_on[at] = offset
            case RestartAt(offset):
                self._go_on.pop(at, None)
                await self._cut(at, lambda log: self._broker.runtime.restart(log, offset))
                await self._forget_gaps_beyond_end(at)
            case TruncateLog(end_offset):
                self._go_on.pop(at, None)
                self.truncations += 1
                log_event("mirror is truncated: its parent has other records", partition=str(at), end=end_offset)
                await self._cut(at, lambda log: self._broker.runtime.truncate(log, end_offset))
                await self._forget_gaps_beyond_end(at)
            case Report(gap):
                self.stopped[at] = gap
                if was_stopped != gap:
                    log_event(
                        "mirror stopped: its parent does not have the next records any more",
                        level="error",
                        partition=str(at),
                        first=gap.first,
                        end=gap.end,
                        advice="set pipe.on.gap to skip or refresh, or give the node a parent that has them",
                    )

    async def _append(self, at: TopicPartition, batches: memoryview) -> None:
        found = self._mirror(at)
        if found is None:
            return
        before = found.log.end_offset
        durable = found.append_mirrored(batches)
        self._go_on.pop(at, None)
        # Counted first: a move to another parent may cancel the wait.
        self.appended_records += found.log.end_offset - before
        self.appended_bytes += len(batches)
        if durable is not None:
            await durable

    async def _cut(self, at: TopicPartition, cut: Callable[[PartitionLog], Coroutine[Any, Any, None]]) -> None:
        await self._broker.local_replicas.cut_mirror(at, cut)
        found = self._mirror(at)
        if found is not None:
            await self._raise_epoch(at, found.leader_epoch + 1)

    async def _forget_gaps_beyond_end(self, at: TopicPartition) -> None:
        """The log may end before the place of the truncation: a batch across it goes whole."""
        found = self._mirror(at)
        if found is not None and self._ledgers.setdefault(at, GapLedger()).truncate(found.log.end_offset):
            await self._keep(at)

    async def _raise_epoch(self, at: TopicPartition, epoch: int) -> None:
        """Store a state epoch of at least `epoch`; this broker leads in it when this returns."""
        metadata = self._broker.metadata
        for _ in range(_EPOCH_ATTEMPTS_MAX):
            image = metadata.image
            topic = image.topics.get(at.topic)
            if topic is None:
                return
            state = image.state(topic, at.partition)
            if state.leader_epoch >= epoch:
                return
            key = keys.partition(topic.identity, at.partition)
            put = values.encode(replace(state, leader_epoch=epoch), image.format_level)
            await metadata.commit([image.unchanged(key)], [Put(key, put)])
        raise StoreUnavailableError(f"{at}: its epoch cannot be raised; others keep changing its state")

    async def _keep(self, at: TopicPartition) -> None:
        topic = self._broker.metadata.image.topics.get(at.topic)
        if topic is not None:
            await self._state.keep_gaps(topic.topic_id, at.partition, self._ledgers[at].gaps)


def _told(answered: PipedPartition) -> Answered:
    parted = None if answered.diverging is None else mirror.EpochEnd(*answered.diverging)
    gaps = tuple(Gap(first, end) for first, end in answered.gaps)
    return Answered(answered.log_start, answered.high_watermark, parted, gaps)


def _listed(keys: Keys) -> str:
    return f"the keys {', '.join(keys)[:200]}" if keys else "all its records"


def _batches(records: memoryview) -> tuple[tuple[Batch, ...], list[int]]:
    """The headers of batches, and where each ends."""
    headers: list[Batch] = []
    ends: list[int] = []
    position = 0
    while position < len(records):
        if len(records) - position < HEADER_SIZE:
            raise CorruptBatchError("the answer of the parent ends in the header of a batch")
        header = read_header(records, position)
        if header.size < HEADER_SIZE or header.size > len(records) - position:
            raise CorruptBatchError("the answer of the parent ends in a batch")
        position += header.size
        headers.append(Batch(header.base_offset, header.next_offset, header.leader_epoch))
        ends.append(position)
    return tuple(headers), ends
