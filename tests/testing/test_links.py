"""Simulated links: rate, loss, asymmetry, and cuts that TCP does not survive."""

from __future__ import annotations

import asyncio
from random import Random

from qanat.testing.simulation.links import SimLink
from qanat.testing.simulation.loop import OWNER, Owner, SimLoop
from qanat.testing.simulation.network import SimNetwork


def test_a_rate_delays_what_is_sent_behind() -> None:
    link = SimLink(Random(1), rate_bytes_per_s=1000, delay_s=0.5)
    assert link.arrival_s(0, 2000) == 2.5
    assert link.arrival_s(0, 1000) == 3.5
    assert link.arrival_s(10, 1000) == 11.5


def test_loss_costs_time_and_nothing_else() -> None:
    link = SimLink(Random(1), loss=0.5)
    arrivals = [link.arrival_s(0, 100) for _ in range(100)]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] > 10


def _loop() -> tuple[SimLoop, SimNetwork]:
    loop = SimLoop(seed=3)
    network = loop.network = SimNetwork(loop, 3)
    return loop, network


async def _transfer(size: int) -> tuple[float, float]:
    """How long a request of some bytes and its answer of `size` bytes take, in virtual seconds."""
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(size)
        times.append(loop.time())
        writer.write(bytes(size))
        await writer.drain()
        writer.close()

    OWNER.set(Owner("parent"))
    server = await asyncio.start_server(serve, "parent", 80)
    await server.start_serving()
    OWNER.set(Owner("child"))
    reader, writer = await asyncio.open_connection("parent", 80)
    began = loop.time()
    writer.write(bytes(size))
    await reader.readexactly(size)
    writer.close()
    server.close()
    return times[0] - began, loop.time() - times[0]


def test_a_path_is_as_fast_in_each_direction_as_its_link() -> None:
    loop, network = _loop()
    network.shape("child", "parent", rate_bytes_per_s=1_000)
    network.shape("parent", "child", rate_bytes_per_s=10_000)
    try:
        up, down = loop.run_until_complete(_transfer(20_000))
    finally:
        loop.close()

    assert 19 < up < 22
    assert 1.9 < down < 2.3


class _End(asyncio.Protocol):
    """A side of a connection, and how it ended."""

    def __init__(self) -> None:
        self.lost: list[Exception | None] = []

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


def test_no_connection_survives_a_cut_of_a_day() -> None:
    for seed in range(10):
        loop = SimLoop(seed=seed)
        network = loop.network = SimNetwork(loop, seed)
        end = _End()

        async def cut_for_a_day(network: SimNetwork = network, end: _End = end) -> None:
            loop = asyncio.get_running_loop()
            OWNER.set(Owner("parent"))
            server = await loop.create_server(_End, "parent", 80)
            await server.start_serving()
            OWNER.set(Owner("child"))
            transport, _ = await loop.create_connection(lambda: end, "parent", 80)
            network.cut("child", "parent")
            assert isinstance(transport, asyncio.WriteTransport)
            transport.write(b"hello")
            await asyncio.sleep(86_400)
            assert end.lost == []
            network.heal()
            await asyncio.sleep(1)

        try:
            loop.run_until_complete(cut_for_a_day())
        finally:
            loop.close()
        assert [type(fault) for fault in end.lost] == [ConnectionResetError]
