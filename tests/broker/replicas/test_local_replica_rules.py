"""How a broker's replicas are reconciled with the image, what is tried again, and when new logs are checkpointed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.broker.replicas.replica_stage import AT, ME, OTHER, THIRD, Stage, stage, state, unstarted
from tests.cluster.images import apply, new_topic_id
from tests.log.batches import batch
from tests.log.directories import WatchedFiles, opened, pass_by, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas import local_replicas
from qanat.cluster import keys, values
from qanat.cluster.store import Delete, Put
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import DiskFullError, NotLeaderError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import FIELDS

SECOND = TopicPartition("orders", 1)
PAYMENTS = TopicPartition("payments", 0)
A_FEW = 20
"""Turns of the event loop that any task needs at most to begin."""


def refuse(path: str) -> None:
    raise DiskFullError(f"{path}: no room")


@asynccontextmanager
async def on_full_disk() -> AsyncIterator[tuple[Stage, WatchedFiles]]:
    """A broker that is yet to be started, and cannot create a log."""
    files = WatchedFiles(MemoryFiles())
    directory = opened(files)
    files.before_write = refuse
    async with unstarted(directory) as broker:
        try:
            yield broker, files
        finally:
            files.before_write = pass_by


async def turns() -> None:
    for _ in range(A_FEW):
        await asyncio.sleep(0)


def put_payments(broker: Stage) -> None:
    ours, broker.identity = broker.identity, new_topic_id()
    broker.put_topic(state(), name="payments")
    broker.identity = ours


# Reconciling


async def test_a_look_at_an_unchanged_topic_changes_nothing() -> None:
    async with stage(state(), state(OTHER)) as broker:
        partition, logs = broker.replicas.partitions[AT], dict(broker.replicas.logs)
        partition.append_own(batch(1))
        await broker.replicas.reconcile_topic("orders")

        assert broker.replicas.partitions == {AT: partition}
        assert broker.replicas.logs == logs
        assert partition.log.end_offset == 1
        assert broker.events == [("leads", 4)]


async def test_a_look_at_a_topic_takes_up_its_new_leaders() -> None:
    async with stage(state(), state(OTHER)) as broker:
        broker.put_topic(state(OTHER, 5), state(epoch=6))
        await broker.replicas.reconcile_topic("orders")

        assert list(broker.replicas.partitions) == [SECOND]
        assert list(broker.fetchers.replicas) == [AT]
        assert broker.events == [("leads", 4), ("resigned", 4), ("leads", 6)]


async def test_a_deleted_topic_leaves_nothing_behind() -> None:
    async with stage(state(), state(OTHER)) as broker:
        apply(broker.image, [Delete(keys.topic("orders"))])
        await broker.replicas.reconcile_topic("orders")

        assert broker.replicas.logs == {}
        assert broker.fetchers.replicas == {}
        assert broker.replicas._by_topic == {}
        assert broker.replicas._by_log == {}


async def test_the_log_of_an_earlier_topic_does_not_lead_a_later_one() -> None:
    async with stage(state()) as broker:
        before = broker.replicas.partitions[AT]
        before.append_own(batch(1))
        broker.identity = new_topic_id()
        broker.put_topic(state())
        broker.replicas.lead_or_follow(broker.image.topics["orders"], 0)
        assert broker.replicas.partitions == {AT: before}
        await until(lambda: broker.replicas.partitions.get(AT, before) is not before)

        after = broker.replicas.partitions[AT]
        assert after.topic_id == broker.identity.value.bytes
        assert after.log.end_offset == 0
        assert before.is_retired


async def test_a_topic_that_is_marked_internal_is_not_written_to_by_clients() -> None:
    async with stage() as broker:
        topic = values.Topic(name="orders", topic_id=str(broker.identity), partitions=((ME,),), is_internal=True)
        apply(broker.image, [Put(keys.topic("orders"), values.encode(topic))])
        await broker.replicas.reconcile_topic("orders")

        assert list(broker.replicas.partitions) == [AT]
        assert broker.replicas.writable == {}


async def test_a_follower_refuses_appends_that_waited_since_it_led() -> None:
    async with stage(state()) as broker:
        log = broker.replicas.logs[AT]
        broker.put_state(state(OTHER, 5))
        with pytest.raises(NotLeaderError, match="the leadership in epoch 4 is over"):
            await broker.runtime.append(log, batch(1), 4)

        assert log.end_offset == 0


async def test_a_sole_replica_on_another_broker_is_asked_for_there() -> None:
    async with stage(state(OTHER, replicas=(OTHER,), in_sync=(OTHER,))) as broker:
        assert broker.replicas.why_missing(AT) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_log_that_was_found_gets_the_settings_of_its_topic() -> None:
    files, identity = MemoryFiles(), new_topic_id()
    for _ in range(2):
        async with unstarted(opened(files)) as broker:
            broker.identity = identity
            broker.configs = {"max.message.bytes": "12345"}
            broker.replicas.is_verification_required = True
            broker.put_topic(state(OTHER))
            await broker.replicas.start(broker.image.revision)

            (log,) = broker.replicas.logs.values()
            assert log.settings.max_message_bytes == 12345
            assert log.producers.requires_verification


# What cannot be created


async def test_a_log_that_could_not_be_created_at_the_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_full_disk() as (broker, files):
        broker.put_topic(state())
        monkeypatch.setattr(local_replicas, "_RETRY_S", 0.01)
        await broker.replicas.start(broker.image.revision)
        assert broker.replicas.offline_partitions() == [AT]
        files.before_write = pass_by

        await until(lambda: AT in broker.replicas.partitions)
        assert broker.replicas.offline_partitions() == []


async def test_a_log_that_could_not_be_created_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as broker:
        tried = list[TopicPartition]()

        async def failing(at: TopicPartition, *_: object) -> None:
            tried.append(at)
            raise DiskFullError("no room")

        monkeypatch.setattr(broker.runtime, "create", failing)
        broker.put_topic(state())
        broker.replicas.reconcile_soon("orders")
        await turns()

        assert tried == [AT]
        assert [task.done() for task in broker.tasks] == [True, False], "the next attempt waits"


async def test_a_fault_is_told_with_how_many_replicas_of_its_topic_wait(caplog: pytest.LogCaptureFixture) -> None:
    async with on_full_disk() as (broker, _):
        put_payments(broker)
        broker.put_topic(state(), state(), state())
        await broker.replicas.start(broker.image.revision)

    told = [getattr(one, FIELDS) for one in caplog.records if one.getMessage() == "replicas cannot be opened now"]
    assert {fields["topic"]: fields["waiting"] for fields in told} == {"payments": 1, "orders": 3}


async def test_the_fault_of_a_deleted_topic_is_forgotten_and_no_other() -> None:
    async with on_full_disk() as (broker, _):
        put_payments(broker)
        broker.put_topic(state())
        await broker.replicas.start(broker.image.revision)
        assert broker.replicas.offline_partitions() == [PAYMENTS, AT]
        apply(broker.image, [Delete(keys.topic("payments"))])
        await broker.replicas.reconcile_topic("payments")

        assert broker.replicas.offline_partitions() == [AT]


async def test_faults_are_reported_from_the_start_on() -> None:
    async with on_full_disk() as (broker, _):
        broker.put_topic(state())
        with pytest.raises(DiskFullError):
            await broker.replicas.reconcile_topic("orders")
        assert broker.faults == 0
        await broker.replicas.start(broker.image.revision)

        assert broker.faults == 1


async def test_faults_need_no_one_to_report_them_to() -> None:
    async with on_full_disk() as (broker, _):
        await broker.replicas.start(broker.image.revision)
        broker.replicas.on_faults = None
        broker.put_topic(state())
        with pytest.raises(DiskFullError):
            await broker.replicas.reconcile_topic("orders")


async def test_the_end_of_a_truncation_does_not_hasten_another_attempt() -> None:
    """The topic was made again while its replica was truncated, and the disk is full now."""
    files = WatchedFiles(MemoryFiles())
    async with stage(state(OTHER), directory=opened(files)) as broker:
        over = broker.fetchers.truncating[AT] = asyncio.get_running_loop().create_future()
        broker.put_state(state(epoch=5))
        files.before_write = refuse
        broker.identity = new_topic_id()
        broker.put_topic(state())
        with pytest.raises(DiskFullError):
            await broker.replicas.reconcile_topic("orders")
        tasks = len(broker.tasks)
        del broker.fetchers.truncating[AT]
        over.set_result(None)
        await turns()
        files.before_write = pass_by

        assert len(broker.tasks) == tasks
        assert broker.replicas.offline_partitions() == [AT]


# What is created


@pytest.mark.parametrize(
    ("members", "is_missed"),
    [
        ([(OTHER, 0), (ME, 0)], True),
        ([(OTHER, 0), (ME, 1)], False),
        ([(OTHER, 0), (ME, 2)], False),
        ([(OTHER, 0)], False),
    ],
)
async def test_a_new_log_is_told_of_where_an_earlier_process_had_one(
    members: list[tuple[int, int]], is_missed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """This process has been running since revision 1."""
    in_sync = tuple(values.Member(node_id, since) for node_id, since in members)
    replicas = (OTHER, ME, THIRD)
    async with stage(values.PartitionState(leader=OTHER, leader_epoch=4, replicas=replicas, in_sync=in_sync)) as broker:
        assert list(broker.replicas.logs) == [AT]

    told = [record.getMessage() for record in caplog.records]
    assert ("replica created again: its folder is missing" in told) is is_missed


async def test_new_logs_are_checkpointed_soon_and_later_ones_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_replicas, "_CHECKPOINT_S", 0.01)
    async with stage(state()) as broker:
        directory = broker.runtime.directory
        await until(lambda: directory.has_checkpoint(AT))
        put_payments(broker)
        await broker.replicas.reconcile_topic("payments")

        await until(lambda: directory.has_checkpoint(PAYMENTS))


async def test_one_checkpoint_a_little_later_is_for_all_new_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_replicas, "_CHECKPOINT_S", 3600.0)
    async with stage(state(), state(), state()) as broker:
        await turns()

        assert [task.done() for task in broker.tasks] == [False]
        assert not broker.runtime.directory.has_checkpoint_beyond(AT, -1)
