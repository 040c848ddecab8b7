"""Consumers that read from a follower in their rack (KIP-392), on a small simulated cluster. C22 among them."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from tests.sim.stage import AT, TOPIC, Script, Stage
from verify.clusters.machine import PORT, Machine

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import whole_batches
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import decode_records

_BY_NAME = 12
"""The last version of Fetch that names topics."""
_BEFORE_RACKS = 10


class RackStage(Stage):
    """Every broker stands in a rack of its own and sends consumers to theirs."""

    selector: str | None = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

    def _machine(self, node_id: int) -> Machine:
        machine = super()._machine(node_id)
        machine._settings = replace(machine._settings, broker_rack=_rack(node_id), replica_selector_class=self.selector)
        return machine


class LeaderOnlyStage(RackStage):
    """The same with Kafka's default."""

    selector = None


def _rack(node_id: int) -> str:
    return f"rack-{node_id}"


def _play(script: Script, stage: type[RackStage] = RackStage) -> None:
    report = stage(script).run()
    assert report.problems == [], report.problems[0]


async def _fetch(
    machine: Machine, offset: int, rack: str = "", *, at_most: int = _BY_NAME, max_wait_ms: int = 10
) -> PartitionData:
    """What this very broker says of the partition."""
    async with Cluster([(machine.host, PORT)], "reader", 20.0) as cluster:
        deadline = Deadline.after(20.0)
        link = await cluster.any_link(deadline)
        wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1024 * 1024)
        topics = [FetchTopic(TOPIC, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, rack_id=rack, topics=topics)
        answer = await link.call(ApiKey.FETCH, request, deadline, at_most=at_most)
        row: PartitionData = answer.responses[0].partitions[0]
        return row


def _values(row: PartitionData) -> list[bytes]:
    return [
        bytes(record.value or b"") for batch in whole_batches(row.records) for record in decode_records(batch, 1024)
    ]


def _cut(stage: Stage, machine: Machine, other: Machine) -> None:
    stage.network.cut(machine.host, other.host)
    stage.network.cut(other.host, machine.host)


def _high_watermark(machine: Machine) -> int:
    assert machine.node is not None
    return machine.node.broker.local_replicas.logs[AT].high_watermark


def test_a_leader_sends_a_consumer_to_the_follower_in_its_rack_which_serves_it() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"one")
        near = stage.followers[0]
        row = await _fetch(stage.leader, 0, _rack(near.node_id))
        assert (row.error_code, row.preferred_read_replica, _values(row)) == (0, near.node_id, [])
        await stage.until(lambda: _high_watermark(near) == 1, "the follower knows what is committed")
        row = await _fetch(near, 0, _rack(near.node_id))
        assert (row.error_code, row.preferred_read_replica, _values(row)) == (0, -1, [b"one"])
        assert (row.high_watermark, row.last_stable_offset) == (1, 1)

    _play(script)


def test_a_consumer_in_the_leaders_rack_or_in_none_is_served_by_the_leader() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"one")
        for rack in ("", "elsewhere", _rack(stage.leader.node_id)):
            row = await _fetch(stage.leader, 0, rack)
            assert (row.preferred_read_replica, _values(row)) == (-1, [b"one"])

    _play(script)


def test_without_a_selector_every_consumer_is_served_by_the_leader() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"one")
        row = await _fetch(stage.leader, 0, _rack(stage.followers[0].node_id))
        assert (row.preferred_read_replica, _values(row)) == (-1, [b"one"])

    _play(script, LeaderOnlyStage)


def test_a_consumer_too_old_to_know_of_copies_is_sent_to_the_leader() -> None:
    async def script(stage: Stage) -> None:
        await stage.send(b"one")
        row = await _fetch(stage.followers[0], 0, at_most=_BEFORE_RACKS)
        assert (row.error_code, _values(row)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])

    _play(script)


def test_c22_a_follower_shows_consumers_nothing_beyond_its_high_watermark() -> None:
    async def script(stage: Stage) -> None:
        near, far = stage.followers
        await stage.send(b"one")
        await stage.until(lambda: _high_watermark(near) == 1, "the first record is committed everywhere")
        _cut(stage, stage.leader, far)
        assert await stage.send(b"two", seconds=2.0) is None, "one member of the in-sync set lacks it"
        assert near.node is not None
        assert near.node.broker.local_replicas.logs[AT].end_offset == 2, "the follower has it"

        assert _values(await _fetch(near, 0)) == [b"one"]
        row = await _fetch(near, 1)
        assert (row.error_code, row.high_watermark, _values(row)) == (0, 1, [])
        assert (await _fetch(near, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

        await stage.until(lambda: far.node_id not in stage.state.in_sync_nodes, "who cannot follow is dropped")
        await stage.until(lambda: _high_watermark(near) == 2, "the second record is committed")
        assert _values(await _fetch(near, 1)) == [b"two"]

    _play(script)


def test_a_follower_that_is_not_in_sync_is_named_to_nobody_and_sends_its_consumers_away() -> None:
    async def script(stage: Stage) -> None:
        far = stage.followers[1]
        await stage.send(b"one")
        assert (await _fetch(stage.leader, 0, _rack(far.node_id))).preferred_read_replica == far.node_id
        _cut(stage, stage.leader, far)
        await stage.send(b"two")
        await stage.until(lambda: far.node_id not in stage.state.in_sync_nodes, "who cannot follow is dropped")
        row = await _fetch(stage.leader, 0, _rack(far.node_id))
        assert (row.preferred_read_replica, _values(row)) == (-1, [b"one", b"two"])
        await stage.until(lambda: _knows_its_place(stage, far), "it hears of that")
        assert (await _fetch(far, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    _play(script)


def _knows_its_place(stage: Stage, machine: Machine) -> bool:
    assert machine.node is not None
    image = machine.node.broker.metadata.image
    return machine.node_id not in image.state(image.topics[TOPIC], 0).in_sync_nodes


def test_a_follower_hears_at_once_of_what_is_committed_and_wakes_who_waits_there() -> None:
    async def script(stage: Stage) -> None:
        near = stage.followers[0]
        await stage.send(b"one")
        await stage.until(lambda: _high_watermark(near) == 1, "the follower knows what is committed")
        waiting = asyncio.ensure_future(_fetch(near, 1, max_wait_ms=10_000))
        await asyncio.sleep(1.0)
        await stage.send(b"two")
        told_at = stage.loop.time()
        assert _values(await waiting) == [b"two"]
        assert stage.loop.time() - told_at < 0.3, "sooner than a follower that has everything asks again"

    _play(script)


def test_whoever_waits_at_a_follower_is_told_when_it_follows_another_leader() -> None:
    async def script(stage: Stage) -> None:
        near = stage.followers[0]
        await stage.send(b"one")
        await stage.until(lambda: _high_watermark(near) == 1, "the follower knows what is committed")
        waiting = asyncio.ensure_future(_fetch(near, 1, max_wait_ms=60_000))
        await asyncio.sleep(1.0)
        stage.leader.kill()
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    _play(script)


def test_c70_a_process_that_is_back_with_an_older_disk_shows_nothing_before_it_is_in_sync_again() -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            await stage.send(b"%d" % number)
        old = stage.leader
        image = old.disk.crash("keep_all")
        for number in range(5, 10):
            await stage.send(b"%d" % number)
        await stage.whole_again()
        for machine in stage.machines:
            machine.lose_power("keep_all")
        old.disk, old.lied_at = image, stage.revision
        await asyncio.sleep(20.0)  # Until all sessions are over.
        await old.start()
        await asyncio.sleep(1.0)
        assert stage.state.leader < 0, "the others may have more"
        assert old.node_id in stage.state.in_sync_nodes, "the set names the process of before"
        row = await _fetch(old, 10)
        # OFFSET_OUT_OF_RANGE would send a consumer that has read everything back to the start, or to the end.
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await _fetch(old, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for machine in stage.machines:
            if machine is not old:
                await machine.start()
        await stage.whole_again()
        await stage.until(lambda: _high_watermark(old) == 10, "it has everything again")
        assert _values(await _fetch(old, 0)) == [b"%d" % number for number in range(10)]

    _play(script)
