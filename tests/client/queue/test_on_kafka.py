"""Queue consumers and redrive on Apache Kafka, the judge of what we send."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.app.dead_letters.letters import committed_records, origins, write_letters
from tests.client.queue.queues import PATIENCE_S, Queue, take
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

from qanat.client import AsyncQueueConsumer, Verdict
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.dead_letters.redrive import Redrive, RedriveOptions
from qanat.model.errors import QanatError
from qanat.wire.kafka.registry import ApiKey

pytestmark = pytest.mark.long

__all__ = ["kafka_jars"]


class KafkaQueue(Queue):
    """A queue on Kafka."""

    @staticmethod
    def on(address: str, topic: str) -> KafkaQueue:
        class Server:
            bootstrap_servers = address

        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(topic, 2, 1)]).values():
            future.result(PATIENCE_S)
        server: Any = Server()
        queue = KafkaQueue(server, topic, f"{topic}-workers")
        queue.configure(**{"share.auto.offset.reset": "earliest"})
        return queue


async def can_renew(address: str) -> bool:
    async with Cluster(parse_bootstrap(address), timeout_s=60) as cluster:
        link = await cluster.any_link(cluster.deadline())
        return link.offered[ApiKey.SHARE_ACKNOWLEDGE][1] >= 2


async def test_kafka_serves_our_queue_consumers_and_our_redrive(kafka_jars: Path, tmp_path: Path) -> None:
    settings = "group.share.record.lock.duration.ms=15000\n"
    broker = KafkaBroker(kafka_jars, tmp_path, settings, features=("share.version=1",))
    with broker.running():
        queue = KafkaQueue.on(broker.address, "jobs")
        queue.produce(*(b"%d" % number for number in range(1000)))
        is_renewable = await can_renew(broker.address)
        if not is_renewable:
            with pytest.raises(QanatError, match="set lock='manual'"):
                async with queue.consumer() as consumer:
                    await take(consumer, 1)
        async with queue.consumer(lock="auto" if is_renewable else "manual") as consumer:
            found = await take(consumer, 1000)
            for record in found:
                is_third = int(record.value) % 3 == 0
                await consumer.acknowledge(record, Verdict.RELEASE if is_third else Verdict.ACCEPT)
            await consumer.flush()
            again = await take(consumer, 334)
            for record in again[:300]:
                await consumer.acknowledge(record)
        async with AsyncQueueConsumer(broker.address, "jobs", group=queue.group, lock="manual") as another:
            left = await take(another, 34)

        write_letters(broker.address, "jobs.dead", origins("jobs", 100))
        async with Cluster(parse_bootstrap(broker.address), timeout_s=60) as cluster:
            before = len(committed_records(broker.address, "jobs"))
            done = await Redrive(cluster, "jobs.dead", RedriveOptions(records_max=60)).run({0: (0, 100)})
            rest = await Redrive(cluster, "jobs.dead", RedriveOptions()).run({0: (0, 100)})
        after = committed_records(broker.address, "jobs")

    assert Counter(int(record.value) for record in found) == Counter(range(1000))
    assert {int(record.value) for record in again} == set(range(0, 1000, 3))
    assert {record.delivery_count for record in again} == {2}
    assert {record.value for record in left} == {record.value for record in again[300:]}
    assert (done.redriven, rest.redriven, rest.done_before) == (60, 40, 60)
    assert len(after) == before + 100
