"""Kafka's own share consumer works on a queue of ours, and Kafka's administration moves and deletes its group."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.servers.kafka.raw import RawClient
from tools.kafka_jars import java_command

from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages import incremental_alter_configs as altering
from qanat.wire.kafka.registry import ApiKey

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parent / "java" / "ShareQueue.java"
SECONDS = 120
_GROUP_RESOURCE = 32


def test_javas_share_consumer_and_administration(kafka_jars: Path) -> None:
    with EmbeddedBroker(settings={"group.share.heartbeat.interval.ms": 300}) as broker:
        broker.create_topic("work", partitions=1)
        setting = altering.AlterableConfig("share.auto.offset.reset", 0, "earliest")
        resource = altering.AlterConfigsResource(_GROUP_RESOURCE, "crew", [setting])
        with RawClient(broker.bootstrap_servers) as client:
            request = altering.IncrementalAlterConfigsRequest([resource])
            assert client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code == 0
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(6):
            producer.produce("work", str(number).encode())
        assert producer.flush(SECONDS) == 0
        command = java_command(kafka_jars, str(PROGRAM), "-XX:TieredStopAtLevel=1")
        arguments = [broker.bootstrap_servers, "crew", "work", "6"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)

    assert done.stdout.splitlines() == [
        "accepted 6 released 1",
        "state Stable members 1",
        "start 6",
        "moved 1",
        "groups 0",
    ], done.stderr
