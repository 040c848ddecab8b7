"""What a leader that has just been elected answers while it cannot know how far its predecessor had committed.

Each script brings a leader into office whose high watermark lags behind what was acknowledged, and keeps its follower
from confirming the rest until the script says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from random import Random
from typing import Any

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.machine import PORT, Machine, wall_ms

from qanat.broker.replicas.partition import Partition
from qanat.broker.share import delivery_policies
from qanat.broker.share.dead_letters import DeadLetters
from qanat.connection.cluster import Cluster
from qanat.connection.committed import commit_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.groups.replies import FetchReply
from qanat.groups.requests import FetchOffsets
from qanat.groups.share.partition import ArchivingRange
from qanat.groups.share.runs import Cause
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.placement import coordinator_partition
from qanat.model.topic_names import IDEMPOTENCY_TOPIC, OFFSETS_TOPIC
from qanat.servers.http.context import HttpContext
from qanat.servers.http.records import idempotency, record_parsing
from qanat.servers.http.records.idempotency import Job
from qanat.servers.http.records.record_parsing import ProducerRecord
from qanat.servers.http.settings import HttpSettings
from qanat.servers.metrics.text import MetricsText
from qanat.testing.simulation.loop import OWNER
from qanat.wire.kafka.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.registry import ApiKey

GROUP = "readers"
_LATEST, _ALL_COMMITTED = -1, -1


def _log_of(machine: Machine, at: TopicPartition) -> Any:
    assert machine.node is not None
    return machine.node.broker.local_replicas.logs[at]


def _leader_of(stage: Stage, at: TopicPartition) -> int:
    node = next(one.node for one in stage.machines if one.is_up and one.node is not None)
    image = node.broker.metadata.image
    return image.state(image.topics[at.topic], at.partition).leader


async def _leads_in_the_dark(
    stage: Stage, at: TopicPartition, write: Callable[[], Awaitable[object]]
) -> tuple[Machine, Partition]:
    """Acknowledge a write, kill the leader before it says so to a follower, and cut the two that are left apart."""
    old = stage.machines[_leader_of(stage, at)]
    first, second = (one for one in stage.machines if one is not old)
    before = _log_of(old, at).end_offset
    writing = asyncio.ensure_future(write())
    while min(_log_of(first, at).end_offset, _log_of(second, at).end_offset) == before:
        assert not writing.done()
        await asyncio.sleep(0.0001)
    for one in (first, second):
        stage.network.cut(old.host, one.host)
    await writing
    old.kill()
    stage.network.cut(first.host, second.host)
    stage.network.cut(second.host, first.host)
    await stage.until(lambda: _leader_of(stage, at) in (first.node_id, second.node_id), "another one leads")
    new = stage.machines[_leader_of(stage, at)]
    assert new.node is not None
    broker = new.node.broker
    await stage.until(lambda: at in broker.partitions, "it knows")
    partition = broker.partitions[at]
    assert partition.log.high_watermark < partition.epoch_start, "it does not see what was acknowledged"
    return new, partition


async def _in_the_dark(stage: Stage) -> tuple[Machine, Partition]:
    """The same for records of a topic: five can be seen and the sixth cannot."""
    for number in range(5):
        assert await stage.send(f"{number}".encode()) == number
    await stage.whole_again()
    return await _leads_in_the_dark(stage, AT, lambda: stage.send(b"acknowledged"))


def _run_on(machine: Machine, work: Awaitable[Any]) -> asyncio.Task[Any]:
    """A task of that machine: it ends when the machine is killed."""
    context = copy_context()
    context.run(OWNER.set, machine.owner)

    async def run() -> Any:
        return await work

    return asyncio.get_running_loop().create_task(run(), context=context)


async def _list(link: Link, timestamp: int) -> tuple[ErrorCode, int]:
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=timestamp)])])
    answer = await link.call(ApiKey.LIST_OFFSETS, request, Deadline.after(20.0))
    row = answer.topics[0].partitions[0]
    return ErrorCode(row.error_code), row.offset


async def _delete_before(link: Link, offset: int) -> tuple[ErrorCode, int]:
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])
    answer = await link.call(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([topic], 10_000), Deadline.after(20.0))
    row = answer.topics[0].partitions[0]
    return ErrorCode(row.error_code), row.low_watermark


def test_a_new_leader_does_not_say_where_its_log_ends_before_it_knows() -> None:
    async def script(stage: Stage) -> None:
        new, partition = await _in_the_dark(stage)
        stamp = wall_ms() - 60_000
        async with Cluster([(new.host, PORT)], "test", 20.0) as cluster:
            link = await cluster.node_link(new.node_id, Deadline.after(20.0))
            assert await _list(link, _LATEST) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
            assert await _list(link, stamp) == (ErrorCode.NONE, 0), "a certainly committed offset may be answered"
            stage.network.heal()
            await stage.until(lambda: partition.log.high_watermark == partition.epoch_start, "it knows now")
            assert await _list(link, _LATEST) == (ErrorCode.NONE, 6)

    play(script)


def test_a_record_that_a_new_leader_hides_is_not_said_to_be_missing_when_looked_up_by_time() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"long ago") == 0
        await asyncio.sleep(5.0)
        between = wall_ms()
        await asyncio.sleep(1.0)
        await stage.whole_again()
        new, partition = await _leads_in_the_dark(stage, AT, lambda: stage.send(b"acknowledged"))
        async with Cluster([(new.host, PORT)], "test", 20.0) as cluster:
            link = await cluster.node_link(new.node_id, Deadline.after(20.0))
            assert await _list(link, between) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
            stage.network.heal()
            await stage.until(lambda: partition.log.high_watermark == partition.epoch_start, "it knows now")
            assert await _list(link, between) == (ErrorCode.NONE, 1)

    play(script)


def test_records_are_deleted_up_to_the_high_watermark_of_a_leader_that_knows_it() -> None:
    async def script(stage: Stage) -> None:
        new, partition = await _in_the_dark(stage)
        async with Cluster([(new.host, PORT)], "operator", 20.0) as cluster:
            link = await cluster.node_link(new.node_id, Deadline.after(20.0))
            assert (await _delete_before(link, _ALL_COMMITTED))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await _delete_before(link, 6))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
            stage.network.heal()
            await stage.until(lambda: partition.log.high_watermark == partition.epoch_start, "it knows now")
            assert await _delete_before(link, 7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await _delete_before(link, _ALL_COMMITTED) == (ErrorCode.NONE, 6)

    play(script)


def test_a_group_is_answered_once_everything_that_was_acknowledged_is_loaded_and_committed() -> None:
    async def commit(stage: Stage, offset: int) -> None:
        async with Cluster(stage.bootstrap, "committer", 20.0) as cluster:
            await commit_offsets(cluster, GROUP, {AT: offset}, Deadline.after(20.0))

    async def call(machine: Machine) -> FetchReply:
        assert machine.node is not None
        async with asyncio.timeout(5.0):
            reply = await _run_on(machine, machine.node.broker.groups.ask(GROUP, FetchOffsets(GROUP)))
        assert isinstance(reply, FetchReply)
        return reply

    async def script(stage: Stage) -> None:
        await commit(stage, 1)
        await asyncio.sleep(1.0)
        node = stage.leader.node
        assert node is not None
        at = TopicPartition(OFFSETS_TOPIC, node.broker.groups.partition_of(GROUP))
        new, _ = await _leads_in_the_dark(stage, at, lambda: commit(stage, 2))
        for _ in range(2):
            assert (await call(new)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert new.node is not None
        assert all(hosted.partition.at != at for hosted in new.node.broker.groups.topic.loaded()), "nothing is decided"
        stage.network.heal()
        while (reply := await call(new)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert (reply.error, [one.offset for one in reply.offsets]) == (ErrorCode.NONE, [2])

    play(script)


def test_a_dead_letter_is_written_though_the_new_leader_does_not_see_its_record_yet() -> None:
    async def script(stage: Stage) -> None:
        new, partition = await _in_the_dark(stage)
        assert new.node is not None
        letters = DeadLetters(new.node.broker)
        reads = _run_on(new, letters._records(partition, ArchivingRange(5, 5, 5, Cause.DELIVERED_TOO_OFTEN)))
        await asyncio.sleep(0.5)
        assert not reads.done(), "there is such a record, and it is committed"
        stage.network.heal()
        assert [record.value for record in await reads] == [b"acknowledged"]

    play(script)


@pytest.mark.parametrize("reset", ["latest", "by_duration:PT1S"])
def test_a_share_group_begins_where_the_log_ends_and_not_where_a_new_leader_believes_it_does(reset: str) -> None:
    async def script(stage: Stage) -> None:
        new, partition = await _in_the_dark(stage)
        assert new.node is not None
        broker = new.node.broker
        own = broker.group_configs.of(GROUP)
        policies = delivery_policies.SharePolicies(
            lambda _: type(own).parse({"share.auto.offset.reset": reset}), broker.runtime
        )
        with pytest.raises(QanatError) as refused:
            await _run_on(new, policies.first_offset(GROUP, partition))
        assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        stage.network.heal()
        await asyncio.sleep(2.0)
        assert await _run_on(new, policies.first_offset(GROUP, partition)) == 6

    play(script)


def test_a_share_group_is_not_told_that_an_acknowledged_offset_is_beyond_the_log() -> None:
    async def script(stage: Stage) -> None:
        new, _ = await _in_the_dark(stage)
        assert new.node is not None
        administration = new.node.broker.share_administration
        (moved,) = await _run_on(new, administration.move(GROUP, TOPIC, {0: 6}))
        assert moved.error is ErrorCode.OFFSET_NOT_AVAILABLE

    play(script)


class _Keys:
    """The HTTP listener's part that keeps idempotency keys, on every machine of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._contexts: dict[int, HttpContext] = {}
        self._stage = stage

    async def open(self) -> None:
        for machine in self._stage.machines:
            self._contexts[machine.node_id] = await _run_on(machine, self._open(machine))
        first = self._stage.machines[0]
        await _run_on(first, self._contexts[0].idempotency._make_topic())
        await asyncio.sleep(2.0)

    async def _open(self, machine: Machine) -> HttpContext:
        assert machine.node is not None
        node = machine.node
        metrics = MetricsText(node.broker, node.listener)
        return HttpContext(node.broker, node.listener.dispatcher, HttpSettings(http_port=8082), metrics)

    def leader(self, key: str) -> Machine:
        """The machine that leads the partition in which a key is noted."""
        return self._stage.machines[
            _leader_of(self._stage, TopicPartition(IDEMPOTENCY_TOPIC, coordinator_partition(key, 16)))
        ]

    async def produce(self, machine: Machine, key: str) -> bool:
        """Write a record under a key by this machine; whether it was known to be there."""

        async def prepare() -> list[ProducerRecord]:
            return [ProducerRecord(TOPIC, b"k", key.encode(), (), wall_ms(), 0)]

        job = Job(key, "fingerprint", prepare, is_single=True)
        reply = await _run_on(machine, self._contexts[machine.node_id].idempotency.answer(job))
        assert reply.status == 200
        return (b"idempotency-replayed", b"true") in reply.headers


@pytest.mark.parametrize("seed", range(1, 16))
def test_a_key_is_written_once_though_the_leader_of_its_note_is_killed_right_after_the_answer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "now_ms", wall_ms)
    monkeypatch.setattr(record_parsing, "now_ms", wall_ms)
    random, key = Random(f"takeover {seed}"), f"User:alice/key-{seed}"

    async def script(stage: Stage) -> None:
        listeners = _Keys(stage)
        await listeners.open()
        old = listeners.leader(key)
        assert not await listeners.produce(old, key)
        await asyncio.sleep(random.choice([0.0, 0.0, 0.005]))
        other = random.choice([one for one in stage.machines if one is not old])
        old.kill()

        assert await listeners.produce(other, key), "it is there"
        await asyncio.sleep(3.0)
        assert (await stage.read()).count(key.encode()) == 1

    play(script)
