"""The Python client's consumer on a small simulated cluster: leaders and coordinators die, connections break."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.stage import AT, TOPIC, Script, Stage

from qanat.client.consumer.async_consumer import AsyncConsumer
from qanat.client.io_loop import IoLoop


def _play(script: Script) -> None:
    report = Stage(script).run()
    assert report.problems == [], report.problems[0]


def _consumer(stage: Stage, group: str | None, protocol: str = "auto") -> AsyncConsumer:
    servers = [f"{host}:{port}" for host, port in stage.bootstrap]
    settings: dict[str, object] = {} if group is None else {"group_id": group, "group_protocol": protocol}
    return AsyncConsumer(
        {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "request.timeout.ms": 5000, **settings},
        TOPIC,
        io=IoLoop.here(),
    )


async def _read(consumer: AsyncConsumer, count: int, seconds: float) -> list[bytes]:
    """So many values in order; fewer where that takes longer."""
    found: list[bytes] = []
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    while len(found) < count and loop.time() < end_s:
        found += [record.value for record in await consumer.poll(timeout_s=0.5)]
    return found


@pytest.mark.parametrize("protocol", [None, "consumer", "classic"])
def test_reading_goes_on_after_the_death_of_a_leader(protocol: str | None) -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            assert await stage.send(b"%d" % number) is not None
        group = None if protocol is None else "g"
        async with _consumer(stage, group, protocol or "auto") as consumer:
            before = await _read(consumer, 5, 30)
            old = stage.leader
            old.kill()
            assert await stage.send(b"5", 40) is not None
            after = await _read(consumer, 1, 60)
            assert consumer.position(AT) == 6
            await old.start()
        assert before == [b"0", b"1", b"2", b"3", b"4"]
        assert after == [b"5"]

    _play(script)


def test_reading_goes_on_after_every_broker_restarted_in_turn() -> None:
    async def script(stage: Stage) -> None:
        seen: list[bytes] = []
        async with _consumer(stage, "g") as consumer:
            for number, machine in enumerate(stage.machines):
                assert await stage.send(b"%d" % number, 40) is not None
                seen += await _read(consumer, 1, 60)
                await machine.stop()
                await machine.start()
                await stage.whole_again()
            assert await stage.send(b"last", 40) is not None
            seen += await _read(consumer, 1, 60)
        assert seen == [b"0", b"1", b"2", b"last"]

    _play(script)
