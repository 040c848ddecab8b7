"""ACLs that are changed through brokers whose watches have missed something: what is acknowledged is so."""

from __future__ import annotations

from tests.sim.stage import Stage, play
from verify.clusters.access import ALLOWS_WRITER
from verify.clusters.machine import PORT, Machine

from qanat.app.acls import acl_requests
from qanat.broker.security.acl_entries import entry_of
from qanat.cluster.acls import key_of
from qanat.connection.cluster import Cluster

KEY = key_of(entry_of(ALLOWS_WRITER))


async def create(machine: Machine) -> None:
    async with Cluster([(machine.host, PORT)], "administrator", 20.0) as cluster:
        await acl_requests.create(cluster, [ALLOWS_WRITER])


async def delete(machine: Machine) -> None:
    async with Cluster([(machine.host, PORT)], "administrator", 20.0) as cluster:
        await acl_requests.delete(cluster, [ALLOWS_WRITER])


def knows(machine: Machine) -> bool:
    assert machine.node is not None
    return KEY in machine.node.broker.metadata.image.acls


def is_stored(stage: Stage) -> bool:
    return stage._truth.peek(KEY) is not None


def test_a_rule_is_created_again_by_a_broker_that_has_not_seen_that_it_was_deleted() -> None:
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


def test_a_rule_is_deleted_by_a_broker_that_has_not_seen_that_it_was_created() -> None:
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
