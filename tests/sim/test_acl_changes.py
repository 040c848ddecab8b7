"""ACLs that are changed through brokers whose watches have missed something: what is acknowledged is so."""

from __future__ import annotations

import asyncio

from tests.sim.stage import Stage, play
from verify.clusters.access import ALLOWS_READER, ALLOWS_WRITER, DENIES_READER, READER, security_of
from verify.clusters.access import TOPIC as GUARDED
from verify.clusters.machine import PORT, USERS_PORT, Machine, wall_ms

from qanat.app.acls import acl_requests
from qanat.broker.security.acl_entries import entry_of
from qanat.cluster.acls import key_of
from qanat.connection.batch_producer import produce
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.security.acls import Acl
from qanat.wire.records import Record, encode_batch

KEYS = {acl: key_of(entry_of(acl)) for acl in (ALLOWS_WRITER, ALLOWS_READER, DENIES_READER)}


async def create(machine: Machine, acl: Acl = ALLOWS_WRITER) -> None:
    async with Cluster([(machine.host, PORT)], "administrator", 20.0) as cluster:
        await acl_requests.create(cluster, [acl])


async def delete(machine: Machine) -> None:
    async with Cluster([(machine.host, PORT)], "administrator", 20.0) as cluster:
        await acl_requests.delete(cluster, [ALLOWS_WRITER])


def knows(machine: Machine, acl: Acl = ALLOWS_WRITER) -> bool:
    assert machine.node is not None
    return KEYS[acl] in machine.node.broker.metadata.image.acls


def is_stored(stage: Stage) -> bool:
    return stage._truth.peek(KEYS[ALLOWS_WRITER]) is not None


def test_c88_a_rule_is_created_again_by_a_broker_that_has_not_seen_that_it_was_deleted() -> None:
    async def script(stage: Stage) -> None:
        first, second, _ = stage.machines
        await create(first)
        await stage.until(lambda: knows(second), "the rule is on its way")
        second.store.lost_changes = 1
        await delete(first)
        await stage.until(lambda: second.store.lost_changes == 0, "its watch misses that")
        assert knows(second)

        await create(second)

        assert is_stored(stage)
        await stage.until(lambda: knows(first), "the others follow")

    play(script, has_users=True)


def test_c88_a_rule_is_deleted_by_a_broker_that_has_not_seen_that_it_was_created() -> None:
    async def script(stage: Stage) -> None:
        first, second, _ = stage.machines
        second.store.lost_changes = 1
        await create(first)
        await stage.until(lambda: second.store.lost_changes == 0, "its watch misses that")
        assert not knows(second)

        await delete(second)

        assert not is_stored(stage)
        assert not knows(second)

    play(script, has_users=True)


def test_c87_a_fetch_that_waits_when_its_right_is_taken_gets_no_later_record() -> None:
    async def script(stage: Stage) -> None:
        await stage._create_topic(stage.bootstrap, GUARDED, 1)
        await stage.until(lambda: any(map(leads, stage.machines)), "there is a leader")
        leader = next(machine for machine in stage.machines if leads(machine))
        await create(leader, ALLOWS_READER)
        link = await Link.open(leader.host, USERS_PORT, READER, Deadline.after(20.0), security_of(READER))
        waiting = asyncio.create_task(fetch(link, GUARDED, {0: 0}, FetchLimits(10_000), Deadline.after(20.0)))
        await asyncio.sleep(1.0)  # Of the simulated clock: the fetch waits at the broker.

        await create(leader, DENIES_READER)
        assert not waiting.done()
        async with Cluster(stage.bootstrap, "super user", 20.0) as cluster:
            batch = encode_batch([Record(0, wall_ms(), b"", b"late")])
            await produce(cluster, GUARDED, {0: batch}, -1, Deadline.after(20.0))

        (row,) = await waiting
        assert (row.error_code, row.records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])

    play(script, has_users=True)


def leads(machine: Machine) -> bool:
    assert machine.node is not None
    return any(at.topic == GUARDED for at in machine.node.broker.partitions)
