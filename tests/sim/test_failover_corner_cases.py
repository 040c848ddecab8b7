"""Corner cases in which leadership or control passes on, each as a script on a small simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.machine import PORT, Machine, wall_ms

from qanat.cluster import keys
from qanat.cluster.store import Committed, Compare, Operation, Put, Refused
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.connection.offsets import LATEST, list_offsets
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import NotLeaderError
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

_BY_NAME = 12
"""The last version of Fetch that names topics."""
_PRODUCE_BY_NAME = 12


async def _fetch(link: Link, partition: FetchPartition) -> PartitionData:
    partition.partition_max_bytes = 1024 * 1024
    request = FetchRequest(max_wait_ms=10, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=[partition])])
    answer = await link.call(ApiKey.FETCH, request, Deadline.after(20.0), at_most=_BY_NAME)
    found: PartitionData = answer.responses[0].partitions[0]
    return found


async def _led_by_another(stage: Stage, old: Machine) -> Machine:
    """Wait for a new leader that knows that it is one."""
    await stage.until(lambda: stage.state.leader not in (-1, old.node_id), "another one leads")
    new = stage.leader
    await stage.until(lambda: new.node is not None and AT in new.node.broker.partitions, "it knows")
    return new


def test_whoever_asks_a_broker_that_does_not_lead_is_told_who_does_and_where() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        other = next(one for one in stage.machines if one.node_id not in stage.state.replicas)
        leads = (stage.leader.node_id, stage.state.leader_epoch)
        where = (leads[0], stage.leader.host, PORT)
        async with Cluster([(other.host, PORT)], "writer", 20.0) as cluster:
            link = await cluster.node_link(other.node_id, Deadline.after(20.0))
            data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, memoryview(b"never read"))])
            request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
            answer = await link.call(ApiKey.PRODUCE, request, Deadline.after(20.0), at_most=_PRODUCE_BY_NAME)
            part = answer.responses[0].partition_responses[0]
            assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == leads
            assert [(one.node_id, one.host, one.port) for one in answer.node_endpoints] == [where]
            rows = [FetchPartition(0, current_leader_epoch=leads[1], partition_max_bytes=1024)]
            assert other.node is not None
            topic_id = other.node.broker.metadata.image.topics[TOPIC].identity.value.bytes
            fetching = FetchRequest(max_wait_ms=10, topics=[FetchTopic(topic_id=topic_id, partitions=rows)])
            found = await link.call(ApiKey.FETCH, fetching, Deadline.after(20.0), at_most=17)
            read = found.responses[0].partitions[0]
            assert read.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (read.current_leader.leader_id, read.current_leader.leader_epoch) == leads
            assert [(one.node_id, one.host, one.port) for one in found.node_endpoints] == [where]

    play(script, brokers=4)


@pytest.mark.parametrize(
    ("difference", "answer"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_c06_whoever_names_another_epoch_than_the_leaders_is_told_which_of_both_is_behind(
    difference: int, answer: ErrorCode
) -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        old = stage.leader
        old.kill()
        new = await _led_by_another(stage, old)
        epoch = stage.state.leader_epoch
        async with Cluster([(new.host, PORT)], "reader", 20.0) as cluster:
            link = await cluster.any_link(Deadline.after(20.0))
            right = await _fetch(link, FetchPartition(0, fetch_offset=0, current_leader_epoch=epoch))
            wrong = await _fetch(link, FetchPartition(0, fetch_offset=0, current_leader_epoch=epoch + difference))

        assert ErrorCode(right.error_code) is ErrorCode.NONE
        assert ErrorCode(wrong.error_code) is answer
        assert not wrong.records

    play(script)


def test_c12_what_a_consumer_has_seen_stays_there_when_the_new_leader_does_not_know_that_it_is_committed() -> None:
    async def script(stage: Stage) -> None:
        old = stage.leader
        seen, ends = 0, [0]
        async with Cluster(stage.bootstrap, "reader", 20.0) as cluster:
            for number in range(10):
                assert await stage.send(f"{number}".encode()) == number
            link = await cluster.node_link(old.node_id, Deadline.after(20.0))
            row = await _fetch(link, FetchPartition(0, fetch_offset=0))
            seen = row.high_watermark
            ends.append((await list_offsets(cluster, TOPIC, {0: LATEST}, Deadline.after(20.0)))[0].offset)
            old.kill()
            new = await _led_by_another(stage, old)
            link = await cluster.node_link(new.node_id, Deadline.after(20.0))
            for _ in range(20):
                row = await _fetch(link, FetchPartition(0, fetch_offset=seen))
                assert ErrorCode(row.error_code) in (ErrorCode.NONE, ErrorCode.OFFSET_NOT_AVAILABLE)
                ends.append((await list_offsets(cluster, TOPIC, {0: LATEST}, Deadline.after(20.0)))[0].offset)
                await asyncio.sleep(0.02)

        assert seen == 10
        assert ends == sorted(ends), "the end never goes back"

    play(script)


def test_c16_what_a_controller_decided_before_it_was_paused_is_refused_when_it_wakes_up() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: any(_is_controller(one) for one in stage.machines), "there is a controller")
        old = next(machine for machine in stage.machines if _is_controller(machine))
        victim = next(machine for machine in stage.machines if machine is not old)
        outcomes: list[Committed | Refused] = []
        decided = asyncio.Event()
        commit = old.store.commit

        async def stalled(compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
            is_about_partitions = any(
                isinstance(one, Put) and isinstance(keys.parse(one.key), keys.PartitionKey) for one in operations
            )
            if is_about_partitions and not decided.is_set():
                decided.set()
                stage.loop.pause(old.owner)  # On its way out: the store gets it half a minute later.
                await asyncio.sleep(0.001)
            outcome = await commit(compares, operations)
            if is_about_partitions:
                outcomes.append(outcome)
            return outcome

        old.store.commit = stalled  # type: ignore[method-assign]
        victim.kill()
        await decided.wait()
        others = [machine for machine in stage.machines if machine is not old]
        await stage.until(lambda: any(_is_controller(one) for one in others), "another one takes over")
        await victim.start()
        await asyncio.sleep(30.0)
        before = stage.state

        stage.loop.resume(old.owner)
        await stage.until(lambda: bool(outcomes), "the store has answered")

        assert isinstance(outcomes[0], Refused)
        assert stage.state == before
        await stage.whole_again()

    play(script)


def _is_controller(machine: Machine) -> bool:
    return (
        machine.node is not None and not machine.owner.is_paused and machine.node.broker.controller_loop.is_controller
    )


async def _reassign(stage: Stage, replicas: list[int] | None) -> None:
    async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
        topic = ReassignableTopic(TOPIC, [ReassignablePartition(0, replicas)])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        deadline = Deadline.after(20.0)
        answer = await cluster.call_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, deadline)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_c20_whoever_holds_a_partition_from_before_it_was_to_have_followers_writes_nothing_to_it() -> None:
    async def script(stage: Stage) -> None:
        alone = stage.leader.node
        assert alone is not None
        held = alone.broker.partitions[AT]
        assert held.leader is None
        await _reassign(stage, [stage.leader.node_id, stage.followers[0].node_id])
        await stage.until(lambda: alone.broker.partitions[AT] is not held, "it has followers")
        assert alone.broker.partitions[AT].leader_epoch == held.leader_epoch
        batch = encode_batch([Record(0, wall_ms(), b"", b"held back")])
        with pytest.raises(NotLeaderError):
            held.append_now(batch)
        with pytest.raises(NotLeaderError):
            await held.append(batch)
        assert held.log.end_offset == 0

    play(script, replicas=1, min_in_sync=1)


def test_c20_a_partition_is_moved_to_others_while_its_leader_is_killed_and_keeps_everything() -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            assert await stage.send(f"{number}".encode()) == number
        before, old = stage.state.replicas, stage.leader
        target = [node_id for node_id in range(4) if node_id not in before]
        await _reassign(stage, target)
        old.kill()
        assert await stage.send(b"5") == 5
        await old.start()
        await stage.until(lambda: set(stage.state.replicas) == set(target), "it is moved")
        await stage.whole_again()

        assert await stage.read() == [f"{number}".encode() for number in range(6)]
        assert not any(
            AT in machine.node.broker.local_replicas.logs for machine in _machines(stage, before) if machine.node
        )

    play(script, brokers=4, replicas=2)


def test_c20_a_move_that_is_taken_back_half_way_leaves_everything_where_it_was() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        before = stage.state.replicas
        target = [node_id for node_id in range(4) if node_id not in before]
        newcomer = stage.machines[target[0]]
        newcomer.kill()  # So that the move cannot end.
        await _reassign(stage, target)
        await stage.until(lambda: bool(stage.state.adding), "it has begun")
        assert await stage.send(b"meanwhile") == 1
        await _reassign(stage, None)
        await newcomer.start()
        await stage.until(lambda: stage.state.replicas == before and not stage.state.adding, "it is taken back")
        await stage.whole_again()

        assert await stage.read() == [b"before", b"meanwhile"]
        assert not any(
            AT in machine.node.broker.local_replicas.logs for machine in _machines(stage, target) if machine.node
        )

    play(script, brokers=4, replicas=2)


def test_c20_a_move_that_is_taken_back_while_the_newcomer_makes_its_log_leaves_no_log_behind() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        before = stage.state.replicas
        target = [node_id for node_id in range(4) if node_id not in before]
        stage.loop._work_s = 0.2  # Making a log takes a while.
        await _reassign(stage, target)
        await _reassign(stage, None)
        assert not any(
            AT in machine.node.broker.local_replicas.logs for machine in _machines(stage, target) if machine.node
        )
        await asyncio.sleep(10.0)

        assert not any(
            AT in machine.node.broker.local_replicas.logs for machine in _machines(stage, target) if machine.node
        )
        await stage.whole_again()

    play(script, brokers=4, replicas=2)


def test_c20_the_only_replica_in_sync_is_let_go_of_when_others_have_everything_and_not_before() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        (only,) = stage.state.replicas
        (other,) = (machine for machine in stage.machines if machine.node_id != only)
        other.kill()
        await _reassign(stage, [other.node_id])
        await asyncio.sleep(5.0)
        assert stage.state.leader == only, "no other replica has it"
        await other.start()
        await stage.until(lambda: stage.state.replicas == (other.node_id,), "it is moved")
        await stage.whole_again()

        assert await stage.read() == [b"before"]

    play(script, brokers=2, replicas=1, min_in_sync=1)


def _machines(stage: Stage, node_ids: Sequence[int]) -> list[Machine]:
    return [machine for machine in stage.machines if machine.node_id in node_ids]


def test_c21_where_a_log_starts_never_goes_back_when_the_leader_that_was_told_dies_at_once() -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            assert await stage.send(f"{number}".encode()) == number
        old = stage.leader
        async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
            deadline = Deadline.after(20.0)
            link = await cluster.node_link(old.node_id, deadline)
            topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 3)])
            answer = await link.call(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([topic], 10_000), deadline)
            row = answer.topics[0].partitions[0]
            assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 3)
        old.kill()
        new = await _led_by_another(stage, old)

        assert new.node is not None
        assert new.node.broker.partitions[AT].log.log_start_offset == 3
        await old.start()
        await stage.whole_again()
        assert all(one.node.broker.local_replicas.logs[AT].log_start_offset == 3 for one in stage.machines if one.node)

    play(script)


def test_writers_hardly_feel_it_when_a_leader_stops_in_good_order() -> None:
    """In some of these runs, a follower learns of the election before the new leader does."""

    async def script(stage: Stage) -> None:
        for _ in range(9):
            await stage.whole_again()
            leader, last = stage.leader, stage.loop.time()
            stopping = asyncio.ensure_future(leader.stop())
            while stage.leader is leader or not stopping.done():
                assert await stage.send(b"steady") is not None
                gap_s, last = stage.loop.time() - last, stage.loop.time()
                assert gap_s < 0.15, "of the simulated clock"
            await leader.start()

    play(script)
