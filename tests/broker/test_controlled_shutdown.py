"""A broker that stops waits until others lead what they can lead, and not for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from tests.cluster.images import image_with

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.controlled_shutdown import ControlledShutdown
from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.model.ids import TopicPartition

AT = TopicPartition("orders", 0)


class Membership:
    """Counts how often a stop is announced."""

    announced = 0

    async def announce_stop(self) -> None:
        self.announced += 1


def shutdown_of(
    in_sync: tuple[int, ...] | None, timeout_ms: int = 600_000
) -> tuple[ControlledShutdown, Membership, dict[TopicPartition, Partition]]:
    """Broker 0 leads a partition with these in-sync replicas, or as its sole replica; brokers 0 and 1 are alive."""
    membership = Membership()
    node = SimpleNamespace(node_id=0, membership=membership, metadata=SimpleNamespace(image=image_with((0, 1))))
    leader = None if in_sync is None else SimpleNamespace(in_sync=in_sync)
    partitions = {AT: cast(Partition, SimpleNamespace(leader=leader))}
    settings = SimpleNamespace(broker=BrokerSettings(controlled_shutdown_timeout_ms=timeout_ms))
    shutdown = ControlledShutdown(cast(ClusterNode, node), partitions, cast(CurrentSettings, settings))
    return shutdown, membership, partitions


async def test_sole_replicas_are_handed_over_to_no_broker() -> None:
    shutdown, membership, _ = shutdown_of(None)

    await shutdown.hand_over()

    assert membership.announced == 0


async def test_it_waits_until_another_leads() -> None:
    shutdown, membership, partitions = shutdown_of((0, 1))
    handing = asyncio.create_task(shutdown.hand_over())
    await asyncio.sleep(0.01)
    shutdown.note()
    await asyncio.sleep(0.01)
    assert not handing.done()

    partitions.clear()
    shutdown.note()

    await asyncio.wait_for(handing, 60)
    assert membership.announced == 1


async def test_it_does_not_wait_where_no_other_in_sync_replica_is_alive() -> None:
    shutdown, membership, _ = shutdown_of((0, 2))

    await asyncio.wait_for(shutdown.hand_over(), 60)

    assert membership.announced == 1


async def test_it_waits_no_longer_than_its_setting_says() -> None:
    shutdown, _, _ = shutdown_of((0, 1), timeout_ms=10)

    await asyncio.wait_for(shutdown.hand_over(), 60)
