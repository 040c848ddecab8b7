"""No sound replica is left: no leader, events with the exact ranges, and an operator's election of the best replica."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from tests.sim.test_lying_disks import flip, folder_of, lose_folder, send_ten, start_all
from verify.clusters.machine import PORT

from qanat.app.cluster.cluster_view import ClusterView, view_of
from qanat.app.cluster.replica_faults import Faults, faults_of
from qanat.app.cluster.status import document
from qanat.app.cluster.unclean_losses import unclean_losses
from qanat.app.terminal.listing import Row
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import FetchLimits, fetch
from qanat.model.error_codes import ErrorCode
from qanat.telemetry.events import FIELDS
from qanat.wire.kafka.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from qanat.wire.kafka.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from qanat.wire.kafka.registry import ApiKey

_LOG = "00000000000000000000.log"
_UNCLEAN = 1
_CHECKPOINTED_S = 130.0
_IN_RECORD = 64
"""A byte behind a batch's header."""


async def looked(stage: Stage) -> tuple[ClusterView, Faults]:
    """The input of `qanat cluster status`."""
    async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
        view = await view_of(cluster)
        return view, await faults_of(cluster, view)


async def foreseen(stage: Stage) -> list[Row]:
    """What `qanat cluster elect --unclean` shows before it acts."""
    async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
        return await unclean_losses(cluster, [(TOPIC, 0)])


async def elect(stage: Stage) -> int:
    """Give the operator's word; the error code."""
    request = ElectLeadersRequest(_UNCLEAN, [TopicPartitions(TOPIC, [0])], 30_000)
    async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
        answer: ElectLeadersResponse = await cluster.call_controller(ApiKey.ELECT_LEADERS, request)
        return answer.replica_election_results[0].partition_result[0].error_code


async def delete_up_to(stage: Stage, offset: int) -> None:
    rows = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])]
    async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
        deadline = cluster.deadline()
        link = await cluster.node_link(stage.state.leader, deadline)
        await link.call(ApiKey.DELETE_RECORDS, DeleteRecordsRequest(rows, 3_000), deadline)


async def read_from(stage: Stage, offset: int) -> tuple[int, list[bytes]]:
    async with Cluster(stage.bootstrap, "reader", 20.0) as cluster:
        deadline = Deadline.after(20.0)
        view = await cluster.topic(TOPIC, deadline)
        link = await cluster.node_link(view.leaders[0], deadline)
        rows = await fetch(link, TOPIC, {0: offset}, FetchLimits(max_wait_ms=100), deadline)
        return rows[0].error_code, [bytes(record.value or b"") for record in rows[0].records]


async def damage_all(stage: Stage, places: dict[int, list[int]]) -> None:
    """Ten records, all power lost, and these of them damaged on each broker's disk."""
    await send_ten(stage)
    await asyncio.sleep(_CHECKPOINTED_S)
    for machine in stage.machines:
        machine.lose_power("drop_all")
    for node_id, records in places.items():
        machine = stage.machines[node_id]
        batch = len(machine.disk.durable_bytes(f"{folder_of(machine)}/{_LOG}")) // 10
        for record in records:
            flip(machine, record * batch + _IN_RECORD)
    await start_all(stage)


def test_where_all_copies_are_damaged_the_operator_is_told_the_ranges_and_elects_the_best(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(stage: Stage) -> None:
        await damage_all(stage, {2: [2, 3, 7], 0: [4, 7, 8], 1: [7]})
        await asyncio.sleep(40.0)  # Longer than the bound: no sound copy is to be had.
        assert stage.state.leader < 0

        view, faults = await looked(stage)
        assert [(one.node_id, one.ranges) for one in faults.replicas] == [
            (0, ((4, 5), (7, 9))),
            (1, ((7, 8),)),
            (2, ((2, 4), (7, 8))),
        ]
        assert all("checksum" in one.reason for one in faults.replicas)
        assert {faults.outlook(one) for one in faults.replicas} == {"waits for an operator"}
        [waiting] = faults.waiting
        assert (waiting.partition.topic, waiting.is_for_operator, waiting.left_ms) == (TOPIC, True, None)
        report = document(view, faults)
        assert (report["offline"], report["is_healthy"]) == (1, False)

        rows = {row["broker"]: row for row in await foreseen(stage)}
        assert rows[1]["outcome"] == "leads, without offsets 7"
        assert [rows[2]["damaged"], rows[2]["outcome"]] == ["2 to 3, 7", "follows"]

        assert await elect(stage) == ErrorCode.NONE
        await stage.until(lambda: stage.state.leader == 1, "the copy leads that loses least")
        await asyncio.sleep(1.0)
        assert await read_from(stage, 0) == (0, [b"%d" % number for number in range(7)])
        assert (await read_from(stage, 7))[0] != 0
        assert await read_from(stage, 8) == (0, [b"8", b"9"])
        view, faults = await looked(stage)
        assert faults.waiting == []
        assert "serves the rest; waits for an operator" in [faults.outlook(one) for one in faults.replicas]

        await delete_up_to(stage, 8)
        await stage.whole_again()
        assert await stage.send(b"more") == 10
        view, faults = await looked(stage)
        assert document(view, faults)["is_healthy"]

    with caplog.at_level(logging.ERROR, "qanat"):
        play(script)
    events = [record for record in caplog.records if record.getMessage().startswith("no sound replica is left")]
    fields = getattr(events[-1], FIELDS)
    assert fields["partition"] == str(AT)
    assert sorted(fields["copies"]) == [
        "broker 0: offsets 4, 7 to 8 damaged",
        "broker 1: offsets 7 damaged",
        "broker 2: offsets 2 to 3, 7 damaged",
    ]
    assert len({str(getattr(record, FIELDS)["copies"]) for record in events}) == len(events), "one event each"


def test_copies_that_are_damaged_in_different_places_make_each_other_whole_after_the_operators_word() -> None:
    async def script(stage: Stage) -> None:
        await damage_all(stage, {0: [4, 8], 1: [7], 2: [2, 3, 6]})
        await asyncio.sleep(5.0)
        assert stage.state.leader < 0
        rows = {row["broker"]: row["outcome"] for row in await foreseen(stage)}
        assert rows == {0: "follows", 1: "follows", 2: "leads, and is repaired from the others"}
        assert await elect(stage) == ErrorCode.NONE
        await stage.whole_again()
        assert await stage.read() == [b"%d" % number for number in range(10)]
        assert await stage.send(b"more") == 10

    play(script)


def test_an_election_that_waits_says_for_whom_and_how_long_at_most() -> None:
    async def script(stage: Stage) -> None:
        await send_ten(stage)
        for machine in stage.machines:
            machine.lose_power("keep_all")
        for machine in stage.machines[:2]:
            await machine.start()
        await asyncio.sleep(10.0)
        _, faults = await looked(stage)
        [waiting] = faults.waiting
        assert (waiting.unproven, waiting.gone) == ((), (2,))
        assert waiting.left_ms is not None
        assert 10_000 < waiting.left_ms < 25_000
        assert waiting.summary.startswith("waits for broker 2 to come back, at most ")
        await asyncio.sleep(30.0)
        _, faults = await looked(stage)
        assert faults.waiting == []

    play(script)


def test_a_copy_that_was_repaired_is_told_of_no_more_and_counted() -> None:
    async def script(stage: Stage) -> None:
        await damage_all(stage, {2: [4]})
        await stage.whole_again()
        view, faults = await looked(stage)
        assert (faults.replicas, faults.waiting, faults.silent) == ([], [], [])
        assert document(view, faults)["is_healthy"]
        counters = [machine.node.broker.counters for machine in stage.machines if machine.node is not None]
        assert [one.replicas_repaired for one in counters] == [0, 0, 1]

    play(script)


def test_a_replica_whose_log_cannot_be_opened_is_an_offline_one_in_every_brokers_metadata() -> None:
    async def script(stage: Stage) -> None:
        await send_ten(stage)
        await asyncio.sleep(_CHECKPOINTED_S)
        for machine in stage.machines:
            machine.lose_power("keep_all")
        for machine in stage.machines[:2]:
            lose_folder(machine)
        await asyncio.gather(*(machine.start() for machine in stage.machines[:2]))
        await asyncio.sleep(5.0)
        for machine in stage.machines[:2]:
            async with Cluster([(machine.host, PORT)], "operator", 20.0) as cluster:
                answer = await cluster.metadata([TOPIC], cluster.deadline())
                assert sorted(answer.topics[0].partitions[0].offline_replicas) == [0, 1, 2]
        _, faults = await looked(stage)
        assert [(one.node_id, one.state) for one in faults.replicas] == [(0, "offline"), (1, "offline")]
        [waiting] = faults.waiting
        assert (waiting.gone, waiting.left_ms) == ((2,), None)
        await stage.machines[2].start()
        await stage.whole_again()
        assert await stage.read() == [b"%d" % number for number in range(10)]

    play(script)
