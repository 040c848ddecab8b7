"""A topic of many partitions is created to the end while other requests are served."""

from __future__ import annotations

import time
from pathlib import Path

from tests.servers.conftest import RunningBroker, StartBroker
from tests.servers.kafka.admin_requests import create, look, topic
from tests.servers.kafka.raw import RawClient

from qanat.wire.kafka.messages.create_topics import CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey

MANY = 200


def replicas_of(running: RunningBroker, name: str) -> int:
    async def count() -> int:
        return sum(at.topic == name for at in running.broker.partitions)

    return running.call(count())


def test_others_are_served_while_a_large_topic_is_made(start_broker: StartBroker, tmp_path: Path) -> None:
    running = start_broker(engine="file", path=str(tmp_path))
    with RawClient(running.address) as large, RawClient(running.address) as small:
        large.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic("large", MANY)], 60_000))
        (created,) = create(small, topic("small"))
        meanwhile = replicas_of(running, "large")
        (answer,) = large.receive(ApiKey.CREATE_TOPICS, 7).topics

    assert (created.error_code, answer.error_code, answer.num_partitions) == (0, 0, MANY)
    assert meanwhile < MANY == replicas_of(running, "large")


def test_a_topic_is_whole_though_its_creator_hung_up(start_broker: StartBroker, tmp_path: Path) -> None:
    running = start_broker(engine="file", path=str(tmp_path))
    with RawClient(running.address) as client:
        client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic("large", MANY)], 60_000))
        while not replicas_of(running, "large"):
            time.sleep(0.001)
    deadline = time.monotonic() + 30
    while replicas_of(running, "large") < MANY and time.monotonic() < deadline:
        time.sleep(0.01)
    with RawClient(running.address) as client:
        found = look(client, "large")["large"]

    assert replicas_of(running, "large") == len(found.partitions) == MANY
