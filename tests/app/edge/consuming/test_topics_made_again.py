"""A consumer application whose topic is deleted and made again, while it runs and while it is away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.app.edge.consuming.test_rest import ask
from tests.client.push.test_push_clients import write
from tests.client.push.test_push_lost_ground_clients import make_again

from qanat.app.edge.consuming.application import ConsumerApplication
from qanat.app.edge.consuming.settings import ConsumerSettings
from qanat.testing import BrokerHere


def settings(folder: Path, broker: BrokerHere, group: str) -> ConsumerSettings:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    given: dict[str, Any] = {"consumer.topic": "prices", "consumer.port": 0, "broker.host": host, "broker.port": port}
    return ConsumerSettings.parse({**given, "consumer.group": group, "storage.data.dir": str(folder)})


async def held(application: ConsumerApplication, count: int) -> list[str]:
    """The values that it answers with, once there are so many and none of before."""
    async with asyncio.timeout(60):
        while True:
            status, answer = await ask(application, "/api/v1/records?limit=1000")
            values = [one["value"] for one in answer["records"]] if status == 200 else []
            if len(values) == count:
                return values
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("group", ["", "g"])
async def test_it_serves_the_topic_that_is_there_and_misses_nothing_of_it(tmp_path: Path, group: str) -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("prices", partitions=1)
        await write(broker, b"a1", b"a2", b"a3", b"a4")
        async with ConsumerApplication(settings(tmp_path, broker, group), {}) as application:
            assert await held(application, 4) == ["a1", "a2", "a3", "a4"]
            await make_again(broker, b"b1", b"b2")
            assert await held(application, 2) == ["b1", "b2"]

        await make_again(broker, b"c1", b"c2", b"c3")
        async with ConsumerApplication(settings(tmp_path, broker, group), {}) as application:
            assert await held(application, 3) == ["c1", "c2", "c3"]
