"""How long elections wait for proofs: each partition for its own time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tests.cluster.images import apply, image_with, new_topic_id

from qanat.broker.controller.replica_proofs import ReplicaProofs
from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.replica_logs import ReplicaLogs
from qanat.broker.runtime.peers import Peers
from qanat.broker.runtime.steady_clock import steady_ms
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import keys, values
from qanat.cluster.elections import Awaited
from qanat.cluster.store import Put
from qanat.testing.simulation.loop import SimLoop

GONE = Awaited(gone=(2,))
FIRST, SECOND = str(new_topic_id()), str(new_topic_id())


def proofs_of(news: list[float]) -> ReplicaProofs:
    image = image_with((0, 1, 2))
    for topic_id in (FIRST, SECOND):
        topic = values.Topic(name=f"t-{topic_id}", topic_id=topic_id, partitions=((0, 1, 2),))
        apply(image, [Put(keys.topic(topic.name), values.encode(topic))])
    node = SimpleNamespace(node_id=0, metadata=SimpleNamespace(image=image), steady_ms=steady_ms)
    settings = SimpleNamespace(broker=BrokerSettings(unclean_recovery_timeout_ms=30_000))

    def noted(topics: Any) -> None:
        news.append(asyncio.get_running_loop().time())

    return ReplicaProofs(
        cast(ClusterNode, node), cast(CurrentSettings, settings), Peers(0, image), cast(ReplicaLogs, None), noted
    )


def played(script: Any) -> None:
    loop = SimLoop(1)
    try:
        loop.run_until_complete(script())
    finally:
        loop.close()


def test_a_partition_is_overdue_after_its_own_time_also_where_another_began_to_wait_before() -> None:
    async def script() -> None:
        news: list[float] = []
        proofs = proofs_of(news)
        start = asyncio.get_running_loop().time()
        proofs.expect(FIRST, 0, 1, GONE)
        await asyncio.sleep(10.0)
        proofs.expect(FIRST, 0, 1, Awaited())
        proofs.expect(SECOND, 0, 1, GONE)
        await asyncio.sleep(29.0)
        assert not proofs.evidence(SECOND, 0).is_overdue
        await asyncio.sleep(1.5)
        assert proofs.evidence(SECOND, 0).is_overdue
        assert 40.0 <= news[-1] - start <= 40.5, "and the controller looks then"

    played(script)


def test_a_partition_that_waits_no_more_begins_anew_when_it_waits_again() -> None:
    async def script() -> None:
        proofs = proofs_of([])
        proofs.expect(FIRST, 0, 1, GONE)
        await asyncio.sleep(29.0)
        proofs.expect(FIRST, 0, 1, Awaited())
        proofs.expect(FIRST, 0, 1, GONE)
        await asyncio.sleep(5.0)
        assert not proofs.evidence(FIRST, 0).is_overdue
        proofs.clear()
        assert not proofs.evidence(FIRST, 0).is_overdue

    played(script)
