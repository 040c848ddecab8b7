"""What a broker leads, follows, creates and removes as the metadata image changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.replicas.replica_stage import AT, ME, NOW_MS, OTHER, THIRD, stage, state
from tests.cluster.images import apply, new_topic_id
from tests.log.batches import batch
from tests.log.directories import until

from qanat.broker.replicas import local_replicas
from qanat.cluster import keys, values
from qanat.cluster.store import Delete
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition


async def test_a_led_partition_is_found_by_name_and_id_and_knows_its_followers() -> None:
    async with stage(state()) as broker:
        partition = broker.replicas.partitions[AT]
        raw = broker.identity.value.bytes

        assert broker.replicas.writable == {("orders", 0): partition}
        assert broker.replicas.by_id == {(raw, 0): partition}
        assert broker.events == [("leads", 4)]
        assert (partition.leader_epoch, partition.topic_id) == (4, raw)
        leader = partition.leader
        assert leader is not None
        assert (leader.replicas, leader.in_sync, leader.lag_max_ms) == ((ME, OTHER), (ME, OTHER), 1000)
        assert not leader._is_held
        assert leader._followers[OTHER].caught_up_ms == NOW_MS
        assert broker.fetchers.replicas == {}


async def test_nothing_is_committed_while_eligible_replicas_rely_on_it() -> None:
    held = values.PartitionState(
        leader=ME,
        leader_epoch=4,
        replicas=(ME, OTHER),
        in_sync=(values.Member(ME, 1),),
        eligible=(values.Member(OTHER, 1),),
    )
    async with stage(held) as broker:
        leader = broker.replicas.partitions[AT].leader
        assert leader is not None
        assert leader._is_held
        broker.put_state(state(in_sync=(ME,)))

        assert broker.replicas.partitions[AT].leader is leader, "the epoch is the same"
        assert not leader._is_held


async def test_a_change_of_the_in_sync_set_settles_what_waits_for_it() -> None:
    async with stage(state()) as broker:
        partition = broker.replicas.partitions[AT]
        durable = partition.append_own(batch(1)).durable
        assert durable is not None
        await until(lambda: partition.log.flushed_offset == 1)
        partition.log.log_start_offset = 1
        started = partition.when_started(1)
        assert started is not None
        broker.put_state(state(in_sync=(ME,)))

        assert durable.done()
        assert started.done()
        assert broker.events == [("leads", 4)]


async def test_another_epoch_is_another_leadership() -> None:
    async with stage(state()) as broker:
        before = broker.replicas.partitions[AT]
        broker.put_state(state(epoch=5))
        after = broker.replicas.partitions[AT]

        assert before.is_retired
        assert before.why_retired is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.events == [("leads", 4), ("resigned", 4), ("leads", 5)]
        assert broker.replicas.by_id[broker.identity.value.bytes, 0] is after
        await until(lambda: after.append_own(batch(1)).base_offset >= 0)
        assert after.leader is not None
        after.leader.note_fetch(OTHER, 1, 1, 1, 0)
        await until(lambda: after.log.high_watermark == 1)


async def test_a_sole_replica_that_gets_followers_is_led_anew_in_the_same_epoch() -> None:
    async with stage(state(replicas=(ME,), in_sync=(ME,))) as broker:
        before = broker.replicas.partitions[AT]
        assert before.leader is None
        broker.put_state(state(replicas=(ME,), in_sync=(ME,)))
        assert broker.replicas.partitions[AT] is before
        broker.put_state(state(in_sync=(ME,)))

        assert before.is_retired
        assert broker.replicas.partitions[AT].leader is not None
        assert broker.events == [("leads", 4), ("resigned", 4), ("leads", 4)]


async def test_a_broker_that_ceases_to_lead_follows_and_may_lead_again() -> None:
    async with stage(state()) as broker:
        broker.put_state(state(OTHER, 5))
        replica = broker.fetchers.replicas[AT]
        assert (replica.leader, replica.leader_epoch) == (OTHER, 5)
        assert replica.topic_id == broker.identity.value.bytes
        assert replica.log is broker.replicas.logs[AT]
        assert broker.replicas.partitions == {}
        assert broker.replicas.writable == {}
        assert broker.replicas.by_id == {}
        assert broker.events == [("leads", 4), ("resigned", 4)]
        broker.put_state(state(epoch=6))

        assert AT not in broker.fetchers.replicas
        assert broker.events[-1] == ("leads", 6)


async def test_internal_topics_are_led_and_not_written_to_by_clients() -> None:
    async with stage() as broker:
        broker.put_topic(state(replicas=(ME,), in_sync=(ME,)), name="__consumer_offsets")
        await broker.replicas.reconcile_topic("__consumer_offsets")

        assert list(broker.replicas.partitions) == [TopicPartition("__consumer_offsets", 0)]
        assert broker.replicas.writable == {}


async def test_a_replica_that_is_being_truncated_leads_when_that_is_done() -> None:
    async with stage(state(OTHER)) as broker:
        over = broker.fetchers.truncating[AT] = asyncio.get_running_loop().create_future()
        broker.put_state(state(epoch=5))
        assert broker.replicas.partitions == {}
        del broker.fetchers.truncating[AT]
        over.set_result(None)
        await asyncio.sleep(0)

        assert broker.replicas.partitions[AT].leader_epoch == 5


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_replica_that_is_gone_when_its_truncation_ends_does_not_lead(is_deleted: bool) -> None:
    async with stage(state(OTHER)) as broker:
        over = broker.fetchers.truncating[AT] = asyncio.get_running_loop().create_future()
        broker.put_state(state(epoch=5))
        if is_deleted:
            apply(broker.image, [Delete(keys.topic("orders"))])
        else:
            del broker.replicas.logs[AT]
        del broker.fetchers.truncating[AT]
        over.set_result(None)
        await asyncio.sleep(0)

        assert broker.replicas.partitions == {}


async def test_the_state_of_a_partition_is_known_as_long_as_it_exists() -> None:
    async with stage(state(OTHER)) as broker:
        assert broker.replicas.state_of(AT) == state(OTHER)
        assert broker.replicas.state_of(TopicPartition("orders", 1)) is None
        assert broker.replicas.state_of(TopicPartition("payments", 0)) is None


async def test_changed_settings_reach_leaders_and_followers() -> None:
    async with stage(state(), state(OTHER)) as broker:
        broker.configs = {"max.message.bytes": "12345", "min.insync.replicas": "2"}
        broker.replicas.apply_settings("orders")
        broker.replicas.apply_settings("payments")

        partition = broker.replicas.partitions[AT]
        assert partition.min_insync_replicas == 2
        assert partition.leader is not None
        assert partition.leader.min_in_sync == 2
        assert [log.settings.max_message_bytes for log in broker.replicas.logs.values()] == [12345, 12345]


async def test_replicas_are_created_and_removed_as_the_image_says() -> None:
    async with stage(state(), state(OTHER), state(OTHER, replicas=(OTHER, THIRD), in_sync=(OTHER,))) as broker:
        assert [at.partition for at in broker.replicas.logs] == [0, 1]
        assert list(broker.fetchers.replicas) == [TopicPartition("orders", 1)]
        elsewhere = state(OTHER, replicas=(OTHER, THIRD), in_sync=(OTHER,))
        broker.put_topic(elsewhere, elsewhere, state())
        partition = broker.replicas.partitions[AT]
        await broker.replicas.reconcile_topic("orders")

        assert [at.partition for at in broker.replicas.logs] == [2]
        assert list(broker.runtime.directory.logs) == [TopicPartition("orders", 2)]
        assert partition.why_retired is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.fetchers.replicas == {}
        apply(broker.image, [Delete(keys.topic("orders"))])
        await broker.replicas.reconcile_topic("orders")
        assert broker.replicas.logs == broker.runtime.directory.logs == {}


async def test_a_change_of_a_replica_that_we_do_not_have_yet_creates_it() -> None:
    async with stage(state(OTHER, replicas=(OTHER, THIRD), in_sync=(OTHER,))) as broker:
        broker.put_state(state(OTHER, replicas=(ME, OTHER, THIRD), in_sync=(OTHER,)))
        await until(lambda: AT in broker.fetchers.replicas)

        assert AT in broker.replicas.logs


async def test_a_log_that_cannot_be_created_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_replicas, "_RETRY_S", 0.02)
    async with stage() as broker:
        create, failures = broker.runtime.create, [StorageError("no"), StorageError("still no")]

        async def failing(*arguments: Any) -> Any:
            if failures:
                raise failures.pop(0)
            return await create(*arguments)

        monkeypatch.setattr(broker.runtime, "create", failing)
        broker.put_topic(state())
        broker.replicas.reconcile_soon("orders")
        await until(lambda: broker.faults == 1)
        assert broker.replicas.is_unavailable("orders", 0)
        assert broker.replicas.why_offline(AT) == "no"
        assert broker.replicas.offline_partitions() == [AT]
        assert broker.replicas.why_missing(AT) is ErrorCode.KAFKA_STORAGE_ERROR
        await until(lambda: AT in broker.replicas.partitions)

        assert broker.faults == 3, "twice it failed, and then it did not"
        assert not broker.replicas.is_unavailable("orders", 0)
        assert broker.replicas._latest == {}


async def test_the_error_for_a_partition_that_is_not_led_here_says_why() -> None:
    async with stage(state(OTHER), state(replicas=(ME,), in_sync=(ME,))) as broker:
        missing = broker.replicas.why_missing

        assert missing(AT) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert missing(TopicPartition("orders", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for number in (-1, 2):
            assert missing(TopicPartition("orders", number)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert missing(TopicPartition("payments", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_log_of_an_earlier_topic_is_not_taken_for_that_of_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(state()) as broker:

        async def failing(_: TopicPartition) -> None:
            raise StorageError("the disk does not let it go")

        monkeypatch.setattr(broker.runtime, "delete", failing)
        monkeypatch.setattr(broker.replicas, "_is_stray", lambda _: False)
        broker.identity = new_topic_id()
        broker.put_topic(state())
        with pytest.raises(StorageError, match="does not let it go"):
            await broker.replicas.reconcile_topic("orders")
        with pytest.raises(StorageError, match="an earlier topic and cannot be removed; move it away"):
            await broker.replicas.reconcile_topic("orders")

        assert broker.replicas.logs == {}
