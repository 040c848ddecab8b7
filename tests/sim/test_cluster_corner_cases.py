"""Corner cases of replication and of the metadata store, each as a script on a small simulated cluster."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.checks import believed_leader_problems
from verify.clusters.machine import PORT, Machine, wall_ms

from qanat.adapters.memory_store import MemoryStore
from qanat.broker.replicas.partition import EndMarker
from qanat.cluster import keys, values
from qanat.cluster.controller import PartitionChange, commits
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Delete, Lease, Put, Refused
from qanat.cluster.values import NO_LEADER
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.committed import commit_offsets, committed_offsets
from qanat.connection.deadline import Deadline
from qanat.model.error_codes import ErrorCode
from qanat.testing.simulation.disk_faults import DiskFaults
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

_BY_NAME = 12
"""The last version of Fetch that names topics."""
_PRODUCE_BY_NAME = 11


async def _fetch(stage: Stage, machine: Machine, partition: FetchPartition):  # type: ignore[no-untyped-def]
    """One row of a Fetch, asked of this very broker."""
    async with Cluster([(machine.host, PORT)], "reader", 20.0) as cluster:
        deadline = Deadline.after(20.0)
        link = await cluster.any_link(deadline)
        partition.partition_max_bytes = 1024 * 1024
        request = FetchRequest(max_wait_ms=10, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=[partition])])
        answer = await link.call(ApiKey.FETCH, request, deadline, at_most=_BY_NAME)
        return answer.responses[0].partitions[0]


def _cut_off(stage: Stage, machine: Machine) -> None:
    """Nothing passes between a machine and the others, in either direction."""
    for other in stage.machines:
        if other is not machine:
            stage.network.cut(machine.host, other.host)
            stage.network.cut(other.host, machine.host)


def test_c07_a_consumer_beyond_the_cut_of_an_unclean_election_is_told_where_its_copy_parts() -> None:
    async def script(stage: Stage) -> None:
        first, epoch = stage.leader, stage.state.leader_epoch
        (second,) = stage.followers
        await stage.send(b"both have it")
        second.kill()
        for number in range(3):
            assert await stage.send(f"{number}".encode()) is not None
        first.kill()
        await second.start()
        await stage.until(lambda: stage.state.leader == second.node_id, "the one that lacks records leads")
        await stage.until(lambda: second.node is not None and AT in second.node.broker.partitions, "it knows")

        row = await _fetch(stage, second, FetchPartition(0, fetch_offset=4, last_fetched_epoch=epoch))

        assert stage.state.is_recovered
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (epoch, 1)

    play(script, brokers=2, replicas=2, min_in_sync=1, configs={"unclean.leader.election.enable": "true"})


async def _old_controllers_commit(store: MemoryStore) -> Refused | None:
    """What comes of a commit that was decided by a controller which is one no more."""
    topic = values.Topic(name="t", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=((0, 1),))
    key = keys.partition(topic.identity, 0)
    await store.commit([], [Put(keys.topic("t"), values.encode(topic))])
    await store.commit([], [Put(keys.CONTROLLER, values.encode(values.Controller(node_id=0)))])
    image = MetadataImage.of(await store.list(keys.ROOT))
    before = image.state(topic, 0)
    after = values.PartitionState(leader=1, leader_epoch=1, replicas=before.replicas, in_sync=before.in_sync)
    (late,) = commits(image, image.controller_epoch, [PartitionChange(topic, 0, before, after)])
    await store.commit([], [Delete(keys.CONTROLLER)])
    await store.commit([], [Put(keys.CONTROLLER, values.encode(values.Controller(node_id=1)))])

    outcome = await store.commit(late.compares, late.operations)

    assert store.peek(key) is None, "nothing has changed"
    return outcome if isinstance(outcome, Refused) else None


async def test_c15_a_command_of_an_old_controller_that_comes_late_changes_nothing() -> None:
    assert await _old_controllers_commit(MemoryStore()) is not None


def test_c16_a_controller_that_was_paused_is_none_when_it_wakes_up() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: any(_is_controller(one) for one in stage.machines), "there is a controller")
        old = next(machine for machine in stage.machines if _is_controller(machine))
        stage.loop.pause(old.owner)
        others = [machine for machine in stage.machines if machine is not old]
        await stage.until(lambda: any(_is_controller(one) for one in others), "another one takes over")
        await asyncio.sleep(30.0)
        new = next(machine for machine in others if _is_controller(machine))

        stage.loop.resume(old.owner)
        await stage.whole_again()

        assert _is_controller(new)
        assert not _is_controller(old)
        assert await stage.send(b"after") is not None

    play(script)


def _is_controller(machine: Machine) -> bool:
    return (
        machine.node is not None and not machine.owner.is_paused and machine.node.broker.controller_loop.is_controller
    )


async def _produce(machine: Machine, value: bytes, acks: int) -> ErrorCode:
    """What this very broker answers to one record."""
    async with Cluster([(machine.host, PORT)], "writer", 20.0) as cluster:
        deadline = Deadline.after(20.0)
        link = await cluster.any_link(deadline)
        data = [PartitionProduceData(0, memoryview(encode_batch([Record(0, wall_ms(), b"", value)])))]
        request = ProduceRequest(acks=acks, timeout_ms=3000, topic_data=[TopicProduceData(TOPIC, partition_data=data)])
        answer = await link.call(ApiKey.PRODUCE, request, deadline, at_most=_PRODUCE_BY_NAME)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def _replaced_without_knowing(stage: Stage) -> Machine:
    """A leader that was paused until another one led, wakes up, and hears nothing from the store."""
    old = stage.leader
    assert await stage.send(b"before") == 0
    stage.loop.pause(old.owner)
    await stage.until(lambda: stage.leader is not old, "another one leads")
    assert await stage.send(b"after") == 1
    old.store.is_cut = True
    stage.loop.resume(old.owner)
    return old


def _believes_to_lead(machine: Machine) -> bool:
    return machine.node is not None and AT in machine.node.broker.partitions


def test_c17_a_leader_that_was_replaced_without_knowing_it_acknowledges_nothing_to_whoever_wants_all() -> None:
    async def script(stage: Stage) -> None:
        old = await _replaced_without_knowing(stage)

        answers = [await _produce(old, b"to the zombie", acks=-1) for _ in range(3)]

        assert _believes_to_lead(old), "otherwise nothing is shown"
        assert set(answers) <= {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
        old.store.heal()
        await stage.whole_again()
        assert await stage.read() == [b"before", b"after"], "what it had written by itself is cut off"

    play(script)


def test_c17_what_a_leader_that_was_replaced_acknowledges_with_acks_1_is_lost_as_documented() -> None:
    async def script(stage: Stage) -> None:
        old = await _replaced_without_knowing(stage)

        answers = [await _produce(old, b"to the zombie", acks=1) for _ in range(3)]

        assert answers == [ErrorCode.NONE] * 3, "acks=1 asks for the leader alone, and it believes to be the leader"
        old.store.heal()
        await stage.whole_again()
        assert await stage.read() == [b"before", b"after"]

    play(script)


def test_c17_what_waited_for_a_leader_while_it_was_paused_is_not_acknowledged_by_it() -> None:
    async def script(stage: Stage) -> None:
        old = stage.leader
        assert await stage.send(b"before") == 0
        asking = asyncio.ensure_future(_produce(old, b"warm", acks=-1))
        assert await asking is ErrorCode.NONE
        stage.loop.pause(old.owner)
        asking = asyncio.ensure_future(_produce(old, b"to the zombie", acks=-1))
        await stage.until(lambda: stage.leader is not old, "another one leads")
        stage.loop.resume(old.owner)

        assert await asking in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
        await stage.whole_again()
        assert await stage.read() == [b"before", b"warm"]

    play(script)


def test_c18_clients_that_reach_only_the_old_leader_are_told_nothing_that_is_not_so() -> None:
    async def script(stage: Stage) -> None:
        old = stage.leader
        _cut_off(stage, old)
        old.store.is_cut = True
        assert await stage.send_to(old, b"lost", seconds=6.0) is None
        await stage.until(lambda: stage.leader is not old, "another one leads")
        stage.network.heal()
        old.store.heal()
        await stage.whole_again()
        assert b"lost" not in await stage.read()

    play(script)


def test_c18_a_leader_that_reaches_the_store_but_no_follower_acknowledges_nothing() -> None:
    async def script(stage: Stage) -> None:
        leader = stage.leader
        _cut_off(stage, leader)
        assert await stage.send_to(leader, b"alone", seconds=6.0) is None
        stage.network.heal()
        await stage.whole_again()
        assert await stage.send(b"together") is not None

    play(script)


def test_c18_a_leader_that_reaches_its_followers_but_not_the_store_goes_on_until_it_is_replaced() -> None:
    async def script(stage: Stage) -> None:
        old = stage.leader
        async with Cluster(stage.bootstrap, "writer", 20.0) as cluster:
            producer = await BatchProducer.idempotent(cluster, Deadline.after(20.0))
            old.store.is_cut = True
            for number in range(20):
                assert await _send_next(producer, number) == number
                await asyncio.sleep(0.5)
        assert stage.leader is not old, "its lease ran out meanwhile"
        old.store.heal()
        await stage.whole_again()
        assert await stage.read() == [f"{number}".encode() for number in range(20)]

    play(script)


async def _send_next(producer: BatchProducer, number: int) -> int:
    batch = encode_batch([Record(0, wall_ms(), b"", f"{number}".encode())])
    return (await producer.send(TOPIC, {0: batch}, Deadline.after(10.0)))[0]


def test_c19_a_replica_that_slept_through_deletion_and_recreation_brings_nothing_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"of the first topic")
        sleeper = stage.followers[0]
        await sleeper.stop()
        async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
            request = DeleteTopicsRequest([TOPIC], [DeleteTopicState(TOPIC)], 10_000)
            answer = await cluster.call_controller(ApiKey.DELETE_TOPICS, request, Deadline.after(20.0))
            assert answer.responses[0].error_code == ErrorCode.NONE
        await stage.until(lambda: stage._truth.peek(keys.topic(TOPIC)) is None, "it is deleted")
        stage.plan = _with_two_replicas(stage)
        await stage._create_topic(stage.bootstrap, TOPIC, stage.plan.partitions)
        assert await stage.send(b"of the second") == 0
        await sleeper.start()
        await stage.whole_again()
        assert await stage.read() == [b"of the second"]
        assert sleeper.node is not None
        log = sleeper.node.broker.local_replicas.logs.get(AT)
        assert log is None or log.end_offset <= 1

    play(script)


def _with_two_replicas(stage: Stage):  # type: ignore[no-untyped-def]
    from msgspec.structs import replace

    return replace(stage.plan, replicas=2)


@pytest.mark.parametrize("act", ["sync", "write", "read-only"])
def test_c23_a_leader_whose_disk_fails_leads_no_more_and_acknowledges_nothing(act: str) -> None:
    async def script(stage: Stage) -> None:
        broken = stage.leader
        await stage.send(b"before")
        _fail(broken, act)
        assert await _produce(broken, b"never acknowledged", -1) is not ErrorCode.NONE
        await stage.until(lambda: stage.leader is not broken, "another one leads")
        await stage.until(lambda: broken.node_id not in stage.state.in_sync_nodes, "it is not in sync")
        assert broken.is_up
        assert await _produce(broken, b"never acknowledged", -1) is not ErrorCode.NONE
        assert await stage.send(b"after") is not None
        found = await stage.read()
        assert [value for value in found if value != b"never acknowledged"] == [b"before", b"after"]
        assert found.count(b"never acknowledged") <= 1, "a follower may have fetched it before the disk failed"

    play(script)


def test_c23_a_leader_whose_disk_is_full_acknowledges_nothing_and_goes_on_when_there_is_room() -> None:
    async def script(stage: Stage) -> None:
        full = stage.leader
        await stage.send(b"before")
        _fail(full, "full")
        for _ in range(3):
            assert await _produce(full, b"never acknowledged", -1) is ErrorCode.KAFKA_STORAGE_ERROR
        full.disk.faults = DiskFaults()
        assert await stage.send(b"after") == 1
        assert await stage.read() == [b"before", b"after"]
        await stage.whole_again()

    play(script)


@pytest.mark.parametrize("act", ["sync", "write", "full", "read-only"])
def test_c23_a_follower_whose_disk_fails_leaves_the_in_sync_set_and_holds_up_nobody(act: str) -> None:
    async def script(stage: Stage) -> None:
        broken = stage.followers[0]
        await stage.send(b"zero")
        _fail(broken, act)
        assert await stage.send(b"one") == 1
        await stage.until(lambda: broken.node_id not in stage.state.in_sync_nodes, "it is not in sync")
        assert broken.is_up
        assert stage.leader is not broken
        assert await stage.send(b"two") == 2
        assert await stage.read() == [b"zero", b"one", b"two"]

    play(script)


def test_c23_a_follower_without_room_for_a_new_leader_epoch_goes_on_when_there_is_room() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"zero")
        await stage.whole_again()
        epoch = stage.state.leader_epoch
        await stage.leader.stop()
        await stage.until(lambda: stage.state.leader_epoch > epoch and stage.state.leader >= 0, "another leads")
        full = next(machine for machine in stage.followers if machine.is_up)
        assert full.node is not None
        log = full.node.broker.local_replicas.logs[AT]
        # The batch fits, the list of leader epochs that is flushed with it does not.
        full.disk.faults = DiskFaults(capacity_bytes=full.disk.content_bytes + log.active.size)
        stage.loop.create_task(stage.send(b"one", 2.0))
        await stage.until(lambda: log.end_offset == 2, "it has the batch")
        await asyncio.sleep(1.0)
        assert log.flushed_offset == 1, "it could not flush it"
        full.disk.faults = DiskFaults()
        await stage.until(lambda: log.flushed_offset == 2, "it is flushed")
        await stage.until(lambda: log.high_watermark == 2, "it is committed")
        assert full.node_id in stage.state.in_sync_nodes
        assert await stage.read() == [b"zero", b"one"]

    play(script)


def _fail(machine: Machine, act: str) -> None:
    """Let a disk fail from now on: one operation, or every one that changes it."""
    match act:
        case "sync" | "write":
            machine.disk.fail_next(act)
        case "full":
            machine.disk.faults = DiskFaults(capacity_bytes=0)
        case "read-only":
            machine.disk.faults = DiskFaults(is_read_only=True)


def test_c24_the_check_of_every_step_sees_a_member_that_lacks_what_is_committed() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"one")
        await stage.whole_again()
        assert believed_leader_problems(stage.machines, stage._truth, TOPIC, is_synced=True) == []
        node = stage.followers[0].node
        assert node is not None
        _cut_off(stage, stage.followers[0])
        await node.broker.runtime.truncate(node.broker.local_replicas.logs[AT], 0)
        found = believed_leader_problems(stage.machines, stage._truth, TOPIC, is_synced=True)
        assert len(found) == 1
        assert found[0].startswith("not on the in-sync set")

    play(script)


def test_c39_a_transaction_ends_in_a_partition_whose_leader_changed_before_the_marker() -> None:
    async def script(stage: Stage) -> None:
        async with Cluster(stage.bootstrap, "writer", 30.0) as cluster:
            producer = await BatchProducer.transactional(cluster, "x", 60_000, Deadline.after(30.0))
            batch = encode_batch([Record(0, wall_ms(), b"", b"in a transaction")])
            await producer.send(TOPIC, {0: batch}, Deadline.after(30.0))
            old = stage.leader
            old.kill()
            await stage.until(lambda: stage.leader is not old, "another one leads")
            await producer.end(Deadline.after(30.0), is_committed=True)
        await old.start()
        await stage.whole_again()
        led = stage.leader.node
        assert led is not None
        log = led.broker.partitions[AT].log
        assert log.last_stable_offset == log.end_offset == 2, "the record and its marker"
        assert (await stage.read())[0] == b"in a transaction"

    play(script)


def test_c39_whoever_was_replaced_unknowingly_does_not_say_that_a_transaction_was_ended_before() -> None:
    async def script(stage: Stage) -> None:
        async with Cluster(stage.bootstrap, "writer", 30.0) as cluster:
            producer = await BatchProducer.transactional(cluster, "x", 60_000, Deadline.after(30.0))
            batch = encode_batch([Record(0, wall_ms(), b"", b"in a transaction")])
            await producer.send(TOPIC, {0: batch}, Deadline.after(30.0))
            await producer.end(Deadline.after(30.0), is_committed=True)
        await stage.whole_again()
        old = stage.leader
        assert old.node is not None
        log = old.node.broker.partitions[AT].log
        ((producer_id, standing),) = log.producers.states.items()
        _cut_off(stage, old)
        old.store.is_cut = True
        await stage.until(lambda: stage.leader is not old, "another one leads")
        marker = EndMarker(producer_id, standing.epoch, standing.coordinator_epoch, is_commit=False)
        writing = asyncio.create_task(old.node.broker.markers.write(marker, [AT]))
        await asyncio.wait([writing], timeout=1.0)
        assert not writing.done() or writing.result()[AT] is not ErrorCode.NONE

    play(script)


def test_c50_no_commit_is_lost_while_every_broker_is_restarted_in_turn() -> None:
    async def script(stage: Stage) -> None:
        async with Cluster(stage.bootstrap, "group", 30.0) as cluster:
            for number, machine in enumerate(stage.machines):
                await commit_offsets(cluster, "g", {AT: number}, Deadline.after(30.0))
                await machine.stop()
                found = await committed_offsets(cluster, "g", Deadline.after(30.0))
                assert found == {AT: number}
                await machine.start()
                await stage.whole_again()

    play(script)


def test_c80_a_broker_that_hears_of_its_registration_last_leads_what_it_was_given() -> None:
    async def script(stage: Stage) -> None:
        last = stage.leader
        other = stage.machines[next(one for one in stage.state.replicas if one != last.node_id)]
        other.kill()
        await stage.until(lambda: stage.state.in_sync_nodes == (last.node_id,), "one is left")
        last.kill()
        await stage.until(lambda: stage.state.leader == NO_LEADER, "there is no leader")
        last.store.lost_changes = 1  # That of its own registration.
        await last.start()
        await stage.until(lambda: last.node is not None and AT in last.node.broker.partitions, "it leads again")

    play(script, brokers=3, replicas=2, min_in_sync=1)


def test_c81_a_leader_whose_lease_was_taken_away_changes_no_in_sync_set_by_what_it_believes() -> None:
    async def script(stage: Stage) -> None:
        leader = stage.leader
        entry = stage._truth.peek(keys.broker(leader.node_id))
        assert entry is not None
        assert entry.lease is not None
        leader.store.is_mute = True  # It gets no response.
        await stage._truth.revoke(Lease(entry.lease, 0))
        _cut_off(stage, leader)
        await stage.until(lambda: stage.leader is not leader, "another one leads")
        epoch = stage.state.leader_epoch
        await asyncio.sleep(5.0)  # It would like to drop those that are silent.
        assert len(stage.state.in_sync_nodes) == 2
        assert stage.state.leader_epoch == epoch
        stage.network.heal()
        leader.store.heal()
        await stage.whole_again()

    play(script)


def test_c82_writing_and_reading_go_on_while_the_store_is_away_and_nobody_need_restart_anything() -> None:
    async def script(stage: Stage) -> None:
        async with Cluster(stage.bootstrap, "writer", 20.0) as cluster:
            producer = await BatchProducer.idempotent(cluster, Deadline.after(20.0))
            await asyncio.sleep(1.0)  # Every copy follows by then.
            for machine in stage.machines:
                machine.store.is_cut = True
            for number in range(21):
                assert await _send_next(producer, number) == number
                await asyncio.sleep(3.0)
        assert await stage.read() == [f"{number}".encode() for number in range(21)]
        for machine in stage.machines:
            machine.store.heal()
        await stage.whole_again()
        assert await stage.send(b"after") == 21

    play(script)


def test_c23_a_broker_whose_disk_failed_stands_aside_also_after_it_registers_anew() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"a")
        broken = stage.followers[0]
        assert broken.node is not None
        image = broken.node.broker.metadata.image
        broken.disk.fail_next("sync")
        await stage.send(b"b")
        await stage.until(lambda: image.brokers[broken.node_id].is_stopping, "it stands aside")
        epoch, entry = image.broker_epochs[broken.node_id], stage._truth.peek(keys.broker(broken.node_id))
        assert entry is not None
        assert entry.lease is not None
        await stage._truth.revoke(Lease(entry.lease, 0))
        await stage.until(lambda: image.broker_epochs.get(broken.node_id, epoch) > epoch, "it registers anew")
        assert image.brokers[broken.node_id].is_stopping, "its disk has not become better"

    play(script)
