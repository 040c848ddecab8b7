"""What becomes of logs that a broker finds at its start and that are not its own, and of those that are missing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from tests.broker.replicas.replica_stage import AT, ME, OTHER, THIRD, Stage, stage, state, unstarted
from tests.cluster.images import apply, new_topic_id
from tests.log.batches import log_settings
from tests.log.directories import PATH, WatchedFiles, opened, running

from qanat.adapters.memory_files import MemoryFiles
from qanat.cluster import keys, values
from qanat.cluster.store import Delete, Put
from qanat.log.atomic_files import replace
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import StorageError
from qanat.model.ids import TopicId, TopicPartition

SECOND = TopicPartition("orders", 1)
ELSEWHERE = state(OTHER, replicas=(OTHER, THIRD), in_sync=(OTHER,))
KNOWN_AT = 7
"""A revision at which the topics of `files_with` existed."""


async def files_with(*partitions: TopicPartition, topic_id: TopicId, revision: int = KNOWN_AT) -> MemoryFiles:
    """A directory that a broker has left, with these logs."""
    files = MemoryFiles()
    async with running(opened(files)) as runtime:
        for at in partitions:
            await runtime.create(at, str(topic_id), log_settings(), revision)
    return files


def fates(files: MemoryFiles) -> dict[str, str]:
    """What the folders of partitions have become, by the partition: kept, stray or delete."""
    names = [name for name in files.list(PATH) if name.startswith("orders-")]
    return {name.partition(".")[0]: name.rpartition("-")[2] if "." in name else "kept" for name in names}


def put_another_topic(broker: Stage) -> None:
    ours, broker.identity = broker.identity, new_topic_id()
    broker.put_topic(ELSEWHERE, name="payments")
    broker.identity = ours


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("known_at", "fate"), [(KNOWN_AT - 1, "delete"), (KNOWN_AT, "delete"), (KNOWN_AT + 1, "stray"), (0, "stray")]
)
async def test_a_log_is_deleted_only_if_the_store_has_known_its_topic(known_at: int, fate: str) -> None:
    files = await files_with(AT, topic_id=new_topic_id(), revision=known_at)
    async with unstarted(opened(files)) as broker:
        put_another_topic(broker)
        await broker.replicas.start(KNOWN_AT)

        assert broker.runtime.directory.logs == {}
        assert fates(files) == {"orders-0": fate}


async def test_a_log_whose_topic_id_is_lost_is_set_aside() -> None:
    files = await files_with(AT, topic_id=new_topic_id())
    replace(files, f"{PATH}/{AT}/partition.metadata", f"version: 0\nrevision: {KNOWN_AT}\n".encode())
    async with unstarted(opened(files)) as broker:
        assert broker.runtime.directory.topic_ids == {AT: ""}
        assert broker.runtime.directory.known_since(AT) == KNOWN_AT
        await broker.replicas.start(KNOWN_AT)

        assert fates(files) == {"orders-0": "stray"}


async def test_a_replica_that_was_moved_away_meanwhile_is_set_aside() -> None:
    identity = new_topic_id()
    files = await files_with(AT, topic_id=identity)
    async with unstarted(opened(files)) as broker:
        broker.identity = identity
        broker.put_topic(ELSEWHERE)
        await broker.replicas.start(KNOWN_AT)

        assert broker.replicas.logs == {}
        assert fates(files) == {"orders-0": "stray"}


async def test_a_partition_that_the_store_does_not_know_yet_is_set_aside() -> None:
    """The store was restored from a copy from before the topic got its second partition."""
    identity = new_topic_id()
    files = await files_with(AT, SECOND, topic_id=identity)
    async with unstarted(opened(files)) as broker:
        broker.identity = identity
        broker.put_topic(state())
        await broker.replicas.start(KNOWN_AT)

        assert list(broker.replicas.logs) == [AT]
        assert fates(files) == {"orders-0": "kept", "orders-1": "stray"}


async def test_the_log_of_a_topic_whose_metadata_cannot_be_read_stays() -> None:
    files = await files_with(AT, topic_id=new_topic_id())
    async with unstarted(opened(files)) as broker:
        apply(broker.image, [Put(keys.topic("orders"), b"{")])
        await broker.replicas.start(KNOWN_AT)

        assert list(broker.runtime.directory.logs) == [AT]
        assert fates(files) == {"orders-0": "kept"}


async def test_a_log_in_use_whose_topic_is_deleted_meanwhile_is_left_to_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage(state(), state()) as broker:
        delete = broker.runtime.delete

        async def and_its_topic(at: TopicPartition) -> None:
            await delete(at)
            apply(broker.image, [Delete(keys.topic("orders"))])

        broker.put_topic(state(), ELSEWHERE)
        with monkeypatch.context() as patched:
            patched.setattr(broker.runtime, "delete", and_its_topic)
            await broker.replicas.reconcile_topic("orders")
        assert list(broker.runtime.directory.logs) == [AT]
        await broker.replicas.reconcile_topic("orders")

        assert broker.runtime.directory.logs == {}
        assert broker.events[-1] == ("resigned", 4)


# Logs that cannot be opened


async def test_a_log_that_cannot_be_opened_is_not_created_over(caplog: pytest.LogCaptureFixture) -> None:
    files = WatchedFiles(await files_with(AT, topic_id=new_topic_id()))

    def refuse(path: str) -> None:
        if path.startswith(f"{PATH}/{AT}/"):
            raise StorageError("the disk cannot read it")

    files.before_read = refuse
    caplog.set_level(logging.INFO, "qanat")
    async with stage(state(), directory=opened(files)) as broker:
        assert broker.replicas.why_offline(AT) == "the disk cannot read it"
        assert broker.replicas.offline_partitions() == [AT]
        assert broker.replicas.is_unavailable("orders", 0)
        assert broker.replicas.why_missing(AT) is ErrorCode.KAFKA_STORAGE_ERROR
        await broker.replicas.reconcile_topic("orders")
        broker.put_state(_damaged(OTHER, (ME,)))
        await broker.replicas.reconcile_topic("orders")

        assert broker.faults == 0, "nothing was tried"
        assert broker.replicas.logs == {}
        assert broker.replicas.why_offline(AT) == "the disk cannot read it"
    assert not {"replicas cannot be opened now", "replica created again from its leader"} & set(events(caplog))


async def test_a_lost_log_is_created_again_once_it_is_repaired_from_a_leader(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(state(), directory=opened(await _without_its_folder())) as broker:
        assert broker.replicas.offline_partitions() == [AT]
        with caplog.at_level(logging.INFO, "qanat"):
            apply(broker.image, [Put(keys.partition(broker.identity, 0), values.encode(_damaged(OTHER, (THIRD, ME))))])
            await broker.replicas.reconcile_topic("orders")

        assert broker.replicas.offline_partitions() == []
        assert broker.fetchers.replicas[AT].leader == OTHER
    assert events(caplog).count("replica created again from its leader") == 1


@pytest.mark.parametrize(
    ("leader", "damaged"), [(OTHER, ()), (OTHER, (THIRD,)), (ME, (ME,)), (values.NO_LEADER, (ME,))]
)
async def test_a_lost_log_stays_lost_where_no_other_replica_replaces_it(leader: int, damaged: Sequence[int]) -> None:
    async with stage(state(), directory=opened(await _without_its_folder())) as broker:
        apply(broker.image, [Put(keys.partition(broker.identity, 0), values.encode(_damaged(leader, damaged)))])
        await broker.replicas.reconcile_topic("orders")

        assert broker.replicas.offline_partitions() == [AT]
        assert broker.replicas.logs == {}


async def _without_its_folder() -> MemoryFiles:
    files = await files_with(AT, topic_id=new_topic_id())
    files.rename(f"{PATH}/{AT}", f"{PATH}/elsewhere")
    return files


def _damaged(leader: int, damaged: Sequence[int]) -> values.PartitionState:
    return values.PartitionState(
        leader=leader,
        leader_epoch=5,
        replicas=(ME, OTHER, THIRD),
        in_sync=(values.Member(OTHER, 1),),
        damaged=tuple(damaged),
    )
