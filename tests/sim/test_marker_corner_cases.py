"""Markers for topics and partitions that the transaction's coordinator has not heard of, or not any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any

import pytest
from tests.sim.stage import TOPIC, Stage, play
from verify.clusters.machine import Machine, wall_ms

from qanat.broker.metadata import image_watcher
from qanat.broker.replicas.partition import EndMarker
from qanat.cluster.topics import CreateTopic
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.servers.http.context import HttpContext
from qanat.servers.http.records.transactional_producer import TransactionalProducer
from qanat.servers.http.settings import HttpSettings
from qanat.servers.metrics.text import MetricsText
from qanat.testing.simulation.loop import OWNER
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

NAME, LATE = "x", "late"


def _run_on(machine: Machine, work: Awaitable[Any]) -> asyncio.Task[Any]:
    """A task of that machine."""
    context = copy_context()
    context.run(OWNER.set, machine.owner)

    async def run() -> Any:
        return await work

    return asyncio.get_running_loop().create_task(run(), context=context)


async def _coordinators(stage: Stage) -> list[Machine]:
    """The machine that coordinates the transactional id, and those that follow it, in the order of their election."""
    async with Cluster(stage.bootstrap, "first", 20.0) as cluster:
        await BatchProducer.transactional(cluster, NAME, 60_000, Deadline.after(20.0))
    await asyncio.sleep(1.0)
    node = stage.leader.node
    assert node is not None
    topic, image = node.broker.transactions.topic, node.broker.metadata.image
    state = image.state(image.topics[topic.name], topic.partition_of(NAME))
    return [stage.machines[node_id] for node_id in state.replicas]


async def _create(machine: Machine, partitions: int = 1) -> None:
    """The topic, led by this machine alone."""
    assert machine.node is not None
    broker = machine.node.broker
    assigned = {number: [machine.node_id] for number in range(partitions)}
    await _run_on(
        machine,
        broker.metadata_changes.create_topic(
            CreateTopic(LATE, broker.metadata_changes.new_topic_id(), assignments=assigned)
        ),
    )


async def _write(machine: Machine, number: int) -> TransactionalProducer:
    """Open a transaction by writing to a partition: its leader adds it to the transaction (KIP-890)."""
    assert machine.node is not None
    node = machine.node

    async def begin() -> TransactionalProducer:
        settings, metrics = HttpSettings(http_port=8082), MetricsText(node.broker, node.listener)
        transactions = TransactionalProducer(
            HttpContext(node.broker, node.listener.dispatcher, settings, metrics).gateway, NAME
        )
        await transactions.init()
        batch = encode_batch([Record(0, wall_ms(), b"", b"in a transaction")])
        await transactions.write(TopicPartition(LATE, number), batch)
        return transactions

    begun: TransactionalProducer = await _run_on(machine, begin())
    return begun


async def _ends_at_last(stage: Stage, leader: Machine, at: TopicPartition) -> None:
    assert leader.node is not None
    log = leader.node.broker.partitions[at].log
    await stage.until(lambda: log.last_stable_offset == log.end_offset == 2, "the record and its marker can be read")


def test_c39_a_transaction_ends_in_a_topic_that_its_next_coordinator_has_not_heard_of_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(stage: Stage) -> None:
        first, second, leader = await _coordinators(stage)
        monkeypatch.setattr(image_watcher, "RECONCILE_S", 20.0)
        await asyncio.sleep(6.0)
        assert second.node is not None
        known = second.node.broker.metadata.image.topics
        second.store.lost_changes = 1
        await _create(leader)
        transactions = await _write(leader, 0)
        assert LATE not in known
        first.kill()
        await _run_on(leader, transactions.end(is_committed=True))
        await asyncio.sleep(1.0)
        assert LATE not in known, "so far the coordinator has not heard of it"
        await _ends_at_last(stage, leader, TopicPartition(LATE, 0))

    play(script)


def test_c39_a_marker_for_a_partition_that_the_coordinator_has_not_heard_of_yet_is_to_be_tried_again() -> None:
    async def script(stage: Stage) -> None:
        assert stage.leader.node is not None
        added = TopicPartition(TOPIC, 1)
        marker = EndMarker(producer_id=1, producer_epoch=0, coordinator_epoch=0, is_commit=True)
        outcomes = await _run_on(stage.leader, stage.leader.node.broker.markers.write_everywhere(marker, [added]))
        assert outcomes == {added: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    play(script)


def test_c39_a_transaction_ends_though_one_of_its_topics_was_deleted() -> None:
    async def script(stage: Stage) -> None:
        _, leader, _ = await _coordinators(stage)
        await _create(leader)
        transactions = await _write(leader, 0)
        async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
            request = DeleteTopicsRequest([LATE], [DeleteTopicState(LATE)], 10_000)
            answer = await cluster.call_controller(ApiKey.DELETE_TOPICS, request, Deadline.after(20.0))
            assert answer.responses[0].error_code == ErrorCode.NONE
        await _run_on(leader, transactions.end(is_committed=True))
        async with asyncio.timeout(5.0):
            await _run_on(leader, transactions.init())  # It waits for the end of the transaction before.

    play(script)
