"""ISR changes of one broker: what it makes of its followers' fetches, and what it writes to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace

import msgspec
import pytest
from tests.cluster.images import new_topic_id, registration
from tests.log.batches import batch, log_settings
from tests.log.directories import opened, running, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.memory_store import MemoryStore
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.replicas import isr_changes
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.parked_tasks import ParkedTasks
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster import keys, values
from qanat.cluster.store import Committed, Compare, Delete, Operation, Put, Refused, Revision
from qanat.model.errors import StoreUnavailableError
from qanat.model.ids import TopicId, TopicPartition
from qanat.replication.leader import Leader
from qanat.telemetry.events import FIELDS

ME, OTHER, THIRD = 0, 1, 2
REPLICAS = (ME, OTHER, THIRD)
EPOCH = 4
LAG_MAX_MS = 1000


class CountingStore(MemoryStore):
    """Counts commits; the next ones fail before or after they are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []
        """Operations of each commit."""
        self.fails_before = 0
        self.fails_after = 0
        self.overtaking: list[Operation] = []
        """Stored just before the next commit: by another broker, and not in anybody's image yet."""

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        if self.fails_before:
            self.fails_before -= 1
            raise StoreUnavailableError("no answer")
        self.commits.append(len(operations))
        if self.overtaking:
            overtaking, self.overtaking = self.overtaking, []
            await super().commit([], overtaking)
        result = await super().commit(compares, operations)
        if self.fails_after:
            self.fails_after -= 1
            raise StoreUnavailableError("no answer")
        return result


@dataclass
class Stage:
    """A broker that leads partitions. Nothing but `IsrChanges` reports the store's state to them."""

    store: CountingStore
    metadata: ImageWatcher
    membership: SimpleNamespace
    node_id: int = ME
    now_ms: int = 0
    clock_reads: int = 0
    tasks: ParkedTasks = field(default_factory=ParkedTasks)
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = SimpleNamespace(broker=BrokerSettings(replica_lag_time_max_ms=20))
        self.changes = IsrChanges(self, self.partitions, settings)  # type: ignore[arg-type]
        self.park = self.tasks.park

    @property
    def steady_ms(self) -> Callable[[], int]:
        def read() -> int:
            self.clock_reads += 1
            return self.now_ms

        return read

    @property
    def partition(self) -> Partition:
        return next(iter(self.partitions.values()))

    @property
    def leader(self) -> Leader:
        assert self.partition.leader is not None
        return self.partition.leader

    def state(self, partition: Partition | None = None) -> values.PartitionState:
        at = (partition or self.partition).at
        image = self.metadata.image
        return image.state(image.topics[at.topic], at.partition)

    async def put(self, stored: Mapping[str, bytes]) -> None:
        assert await self.metadata.commit([], [Put(key, value) for key, value in stored.items()])

    async def put_state(self, state: values.PartitionState, partition: Partition | None = None) -> None:
        await self.put({key_of(partition or self.partition): values.encode(state)})

    def epoch(self, node_id: int) -> int:
        return self.metadata.image.broker_epochs[node_id]

    def fetch(self, node_id: int, offset: int | None = None, partition: Partition | None = None) -> bool:
        """A follower's fetch; from the end of the log by default."""
        chosen = partition or self.partition
        return self.changes.note_fetch(
            chosen, node_id, self.epoch(node_id), chosen.log.end_offset if offset is None else offset
        )

    async def settled(self) -> None:
        await until(
            lambda: not any(one.leader is not None and one.leader.is_changing for one in self.partitions.values())
        )


def key_of(partition: Partition) -> str:
    return keys.partition(TopicId.of(partition.topic_id), partition.at.partition)


async def create_topic(stage: Stage, name: str, partitions: int, state: values.PartitionState) -> TopicId:
    identity = new_topic_id()
    topic = values.Topic(name=name, topic_id=str(identity), partitions=(REPLICAS,) * partitions)
    await stage.put(
        {
            keys.topic(name): values.encode(topic),
            keys.topic_id(identity): values.encode(values.TopicReference(name=name)),
        }
    )
    await stage.put({keys.partition(identity, number): values.encode(state) for number in range(partitions)})
    return identity


@asynccontextmanager
async def leading(
    in_sync: Sequence[int] = (ME,), partitions: int = 1, topics: Sequence[str] = ("orders",)
) -> AsyncIterator[Stage]:
    """Partitions with three replicas, each with one record, that `ME` leads."""
    store = CountingStore()
    metadata = ImageWatcher(store, lambda _: None)
    kept = store.keep(await store.grant_lease(60_000))
    await metadata.start()
    stage = Stage(store, metadata, SimpleNamespace(kept_lease=kept))
    await stage.put({keys.broker(one): values.encode(registration(one)) for one in REPLICAS})
    members = tuple(values.Member(one, stage.epoch(one)) for one in in_sync)
    state = values.PartitionState(leader=ME, leader_epoch=EPOCH, replicas=REPLICAS, in_sync=members)
    async with running(opened(MemoryFiles())) as runtime:
        for name in topics:
            identity = await create_topic(stage, name, partitions, state)
            for number in range(partitions):
                at = TopicPartition(name, number)
                log = await runtime.create(at, str(identity), log_settings())
                leader = Leader(ME, log.end_offset, LAG_MAX_MS)
                leader.stored(REPLICAS, in_sync, 0)
                stage.partitions[at] = partition = Partition(log, runtime, identity.value.bytes, EPOCH, leader)
                partition.append_own(batch(1))
                await until(lambda log=log: log.flushed_offset == 1)  # type: ignore[misc]
                partition.advance()
        try:
            yield stage
        finally:
            await stage.tasks.cancel()
            await metadata.close()
            await kept.release()
            await store.close()


async def some_turns() -> None:
    """Whatever needs no time has happened then."""
    for _ in range(30):
        await asyncio.sleep(0)


def changes_logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [getattr(one, FIELDS) for one in caplog.records if one.getMessage() == "in-sync set changed"]


def with_members(stage: Stage, *members: int, partition: Partition | None = None) -> values.PartitionState:
    """The partition's state with another in-sync set."""
    in_sync = tuple(values.Member(one, stage.epoch(one)) for one in members)
    return msgspec.structs.replace(stage.state(partition), in_sync=in_sync)


async def test_a_follower_that_has_everything_joins_in_the_store_and_here() -> None:
    async with leading() as stage:
        assert stage.fetch(OTHER)
        assert stage.leader.is_changing
        await stage.settled()

        assert stage.state().in_sync_nodes == (ME, OTHER)
        assert stage.state().in_sync[1].since == stage.epoch(OTHER)
        assert stage.leader.in_sync == (ME, OTHER), "it does not wait for the watch's listener"


async def test_a_follower_that_lacks_records_does_not_join_and_a_member_changes_nothing_by_fetching() -> None:
    async with leading((ME, OTHER)) as stage:
        assert stage.fetch(OTHER)
        assert stage.fetch(THIRD, 0)

        assert not stage.leader.is_changing
        assert stage.partition.log.high_watermark == 1, "the fetch of the member commits the record"


async def test_a_fetch_ends_the_wait_for_the_followers_start() -> None:
    async with leading((ME, OTHER)) as stage:
        stage.partition.log.log_start_offset = 1
        started = stage.partition.when_started(1)
        assert started is not None
        stage.changes.note_fetch(stage.partition, OTHER, stage.epoch(OTHER), 1, start_offset=1)

        assert started.done()


async def test_only_replicas_and_processes_that_are_registered_may_fetch() -> None:
    async with leading() as stage:
        end, epoch = stage.partition.log.end_offset, stage.epoch(OTHER)

        assert not stage.changes.note_fetch(stage.partition, OTHER, epoch - 1, end)
        assert not stage.changes.note_fetch(stage.partition, OTHER, epoch + 1, end)
        assert not stage.changes.note_fetch(stage.partition, 9, 1, end), "it is no replica"
        assert not stage.leader.is_changing
        stage.partition.leader = None
        assert not stage.fetch(OTHER), "there are no followers"


async def test_a_follower_that_lags_for_too_long_leaves_and_its_offset_counts_no_more() -> None:
    async with leading((ME, OTHER, THIRD)) as stage:
        assert stage.fetch(OTHER)
        stage.now_ms = LAG_MAX_MS + 1
        assert stage.fetch(OTHER)
        assert stage.partition.log.high_watermark == 0
        watching = asyncio.create_task(stage.changes.watch())
        await until(lambda: stage.state().in_sync_nodes == (ME, OTHER))
        await stage.settled()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

        assert stage.partition.log.high_watermark == 1


async def test_a_partition_without_followers_does_not_keep_others_from_being_watched() -> None:
    async with leading((ME, OTHER), partitions=2) as stage:
        sole, other = stage.partitions.values()
        sole.leader = None
        stage.now_ms = LAG_MAX_MS + 1
        watching = stage.park(stage.changes.watch())
        await until(lambda: stage.state(other).in_sync_nodes == (ME,))

        assert not watching.done()


async def test_others_run_after_each_hundred_partitions_of_a_review() -> None:
    async with leading() as stage:
        stage.partitions.update({TopicPartition("orders", number): stage.partition for number in range(250)})
        stage.park(stage.changes.watch())
        seen = {stage.clock_reads}
        while max(seen) < 250:  # Each partition's review reads the clock once.
            await asyncio.sleep(0)
            seen.add(stage.clock_reads)

        assert sorted(seen) == [0, 100, 200, 250]


async def test_a_broker_that_stops_does_not_join() -> None:
    async with leading() as stage:
        stopping = values.BrokerRegistration(
            node_id=OTHER, epoch=1, incarnation="i", listeners=registration(OTHER).listeners, is_stopping=True
        )
        await stage.put({keys.broker(OTHER): values.encode(stopping)})
        assert stage.fetch(OTHER)

        assert not stage.leader.is_changing


@pytest.mark.parametrize(("partition", "joins"), [(0, False), (1, True)])
async def test_a_replica_with_a_fault_does_not_join_the_set_of_its_partition(partition: int, joins: bool) -> None:
    async with leading() as stage:
        topic_id = stage.metadata.image.topics["orders"].topic_id
        fault = values.ReplicaFault(topic_id, partition, ((0, 1),))
        faults = values.ReplicaFaults(broker_epoch=stage.epoch(OTHER), faults=(fault,))
        await stage.put({keys.replica_faults(OTHER): values.encode(faults)})
        for follower in (OTHER, THIRD):
            stage.fetch(follower)
            await stage.settled()

        assert stage.state().in_sync_nodes == ((ME, OTHER, THIRD) if joins else (ME, THIRD))


async def test_a_damaged_replica_does_not_join_before_it_is_repaired() -> None:
    async with leading() as stage:
        state = stage.state()
        damaged = values.PartitionState(
            leader=ME, leader_epoch=EPOCH, replicas=state.replicas, in_sync=state.in_sync, damaged=(OTHER,)
        )
        await stage.put_state(damaged)
        stage.fetch(OTHER)
        await stage.settled()

        assert stage.state() == damaged
        assert stage.leader.in_sync == (ME,)


async def test_a_change_is_committed_without_a_pause_where_the_lease_is_confirmed_and_else_not_at_all() -> None:
    async with leading() as stage:
        stage.store.commits.clear()
        lease, stage.membership.kept_lease = stage.membership.kept_lease, None
        stage.fetch(OTHER)
        await some_turns()
        assert stage.store.commits == []
        stage.membership.kept_lease = lease
        await stage.settled()
        assert stage.leader.in_sync == (ME, OTHER)

        stage.fetch(THIRD)
        await some_turns()
        assert stage.store.commits == [1, 1]


async def test_a_broker_that_is_not_registered_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with leading() as stage:
        assert await stage.metadata.commit([], [Delete(keys.broker(ME))])
        before = stage.state()
        stage.store.commits.clear()
        with caplog.at_level(logging.INFO, "qanat"):
            stage.fetch(OTHER)
            await stage.settled()

        assert stage.store.commits == []
        assert stage.state() == before
        assert stage.leader.in_sync == (ME,)
        assert changes_logged(caplog) == []


async def test_a_state_that_another_broker_has_stored_meanwhile_is_not_overwritten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with leading() as stage:
        newer = with_members(stage, ME, THIRD)
        stage.store.overtaking = [Put(key_of(stage.partition), values.encode(newer))]
        with caplog.at_level(logging.INFO, "qanat"):
            stage.fetch(OTHER)
            await stage.settled()

        assert stage.state() == newer
        assert stage.leader.in_sync == (ME, THIRD)
        assert changes_logged(caplog) == []


async def test_the_changes_that_are_stored_are_logged_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    async with leading(partitions=2) as stage:
        joined, damaged = stage.partitions.values()
        await stage.put_state(msgspec.structs.replace(stage.state(damaged), damaged=(OTHER,)), damaged)
        with caplog.at_level(logging.INFO, "qanat"):
            for partition in (joined, damaged):
                stage.fetch(OTHER, partition=partition)
            await stage.settled()

        assert changes_logged(caplog) == [{"partition": str(joined.at), "in_sync": [ME, OTHER]}]


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_commit_without_an_answer_is_repeated_and_happens_once(
    is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_changes, "_RETRY_S", 0.02)
    async with leading() as stage:
        stage.store.fails_after, stage.store.fails_before = (1, 0) if is_stored else (0, 3)
        began = asyncio.get_running_loop().time()
        stage.fetch(OTHER)
        await stage.settled()
        took_s = asyncio.get_running_loop().time() - began

        assert stage.state().in_sync_nodes == stage.leader.in_sync == (ME, OTHER)
        assert took_s > (0.02 if is_stored else 0.06), "it pauses before it asks again"


async def test_changes_of_one_turn_are_one_commit_and_many_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "_AT_ONCE", 3)
    async with leading(partitions=5) as stage:
        stage.store.commits.clear()
        for partition in stage.partitions.values():
            stage.fetch(OTHER, partition=partition)
        await stage.settled()

        assert stage.store.commits == [3, 2]
        assert all(stage.state(one).in_sync_nodes == (ME, OTHER) for one in stage.partitions.values())


async def test_a_change_that_is_refused_delays_the_others_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "_AT_ONCE", 3)
    async with leading(partitions=7) as stage:
        stage.store.commits.clear()
        known = stage.metadata.image.broker_epochs
        known[THIRD] = Revision(known[THIRD] + 100)  # The image is wrong: no commit with this member holds.
        first, *others = stage.partitions.values()
        stage.fetch(THIRD, partition=first)
        for partition in others:
            stage.fetch(OTHER, partition=partition)
        await stage.settled()

        assert stage.store.commits == [3, 1, 3]
        joined = [partition.at.partition for partition in others if OTHER in stage.state(partition).in_sync_nodes]
        assert joined == [3, 4, 5, 6], "those of the refused commit try again at the next fetch"
        assert [partition.leader.in_sync for partition in others if partition.leader] == [
            (ME,) if partition.at.partition < 3 else (ME, OTHER) for partition in others
        ]


async def test_a_retired_partition_or_one_of_another_epoch_changes_nothing() -> None:
    async with leading(partitions=2) as stage:
        retired, other = stage.partitions.values()
        stage.fetch(OTHER, partition=retired)
        stage.fetch(OTHER, partition=other)
        retired.retire()
        state = stage.state(other)
        newer = values.PartitionState(leader=ME, leader_epoch=EPOCH + 1, replicas=state.replicas, in_sync=state.in_sync)
        before = stage.state(retired)
        stage.store.commits.clear()
        await stage.put_state(newer, other)
        await asyncio.sleep(0.05)

        assert stage.store.commits == [1], "no more than the state of the newer epoch"
        assert (stage.state(retired), stage.state(other)) == (before, newer)
        assert other.leader is not None
        assert other.leader.is_changing, "both sets count to the end"


async def test_a_fetch_from_a_retired_partition_asks_for_no_change() -> None:
    async with leading() as stage:
        stage.partition.retire()
        stage.fetch(OTHER)

        assert not stage.leader.is_changing


Event = Callable[[Stage, Partition], Awaitable[None]]


async def _is_retired(_: Stage, partition: Partition) -> None:
    partition.retire()


async def _has_another_leader(stage: Stage, partition: Partition) -> None:
    await stage.put_state(msgspec.structs.replace(stage.state(partition), leader=OTHER), partition)


async def _has_another_set(stage: Stage, partition: Partition) -> None:
    await stage.put_state(with_members(stage, ME, THIRD, partition=partition), partition)
    assert partition.leader is not None
    partition.leader.stored(REPLICAS, (ME, THIRD), 0)


async def _topic_is_deleted(stage: Stage, partition: Partition) -> None:
    assert await stage.metadata.commit([], [Delete(keys.topic(partition.at.topic))])


async def _topic_is_created_again(stage: Stage, partition: Partition) -> None:
    state = stage.state(partition)
    await _topic_is_deleted(stage, partition)
    await create_topic(stage, partition.at.topic, 1, state)


@pytest.mark.parametrize(
    "happens", [_is_retired, _has_another_leader, _has_another_set, _topic_is_deleted, _topic_is_created_again]
)
async def test_a_change_that_was_decided_on_an_old_state_is_dropped_and_the_next_one_is_made(
    happens: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_changes, "_AT_ONCE", 1)
    async with leading(topics=("first", "second", "third")) as stage:
        lease, stage.membership.kept_lease = stage.membership.kept_lease, None
        for partition in stage.partitions.values():
            stage.fetch(OTHER, partition=partition)
        await some_turns()  # The first change waits for the lease, the others for the first.
        first, second, third = stage.partitions.values()
        await happens(stage, second)
        before = await stage.store.get(key_of(second))
        stage.membership.kept_lease = lease
        await until(lambda: stage.state(third).in_sync_nodes == (ME, OTHER))

        assert stage.state(first).in_sync_nodes == (ME, OTHER)
        assert await stage.store.get(key_of(second)) == before
