"""What goes on after a link was cut in silence, or a parent is changed in the middle of a stream: how soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.broker.edge.test_down_pipe import AT, call, content, edge_node, root_with, url, wait_until
from tests.broker.edge.test_up_flow import is_idle, make_outbox, require_sold, sell, sender_of

from qanat.app.node.node import Node

TICK_S = 0.01


class SilentLink:
    """A forwarder that can swallow what its present connections carry, as a cut does; later ones work."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = parts.hostname, parts.port
        self._working: set[int] = set()
        self._count = 0
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SilentLink]:
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    def swallow(self) -> None:
        """What was connected until now is silent for ever."""
        self._working.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number = self._count
        self._working.add(number)
        with suppress(OSError):
            there, back = await asyncio.open_connection(*self._target)
            await asyncio.gather(self._pass(reader, back, number), self._pass(there, writer, number))
        writer.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, number: int) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if number in self._working:
                    sink.write(data)
        sink.close()


async def place(root: Node, name: str, role: str, parents: list[str], at: str) -> None:
    await call(root, "PUT", f"/api/v1/edge/nodes/{name}", {"role": role, "parents": parents, "url": at})


def test_records_go_up_seconds_after_a_silent_cut(tmp_path: Path) -> None:
    """The request that was on its way is silent for ever: it goes out again, and is not waited for."""

    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root, SilentLink(url(root)).open() as link:
            await place(root, "root-1", "ROOT", [], link.url)
            await place(root, "pos-1", "POS", ["root-1"], "http://127.0.0.1:1")
            await call(root, "POST", "/api/v1/topics", {"name": "all-sales", "partitions": 1})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await make_outbox(child)
                await sell(child, 0, 3)
                await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 3, "three up")
                link.swallow()
                began = time.monotonic()
                await sell(child, 3, 5)
                await require_sold(root, list(range(5)))
                assert time.monotonic() - began < 20  # A request that is not repeated is given up after forty.
                await wait_until(lambda: is_idle(child), "the mark")

    asyncio.run(run())


def test_a_move_is_heard_after_a_silent_cut_before_the_request_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qanat.broker.edge.edge_node._PARKED_S", 1.0)

    async def run() -> None:
        async with (
            root_with(tmp_path, 1) as root,
            SilentLink(url(root)).open() as link,
            edge_node(tmp_path, "pos-1", link.url) as child,
        ):
            await wait_until(lambda: content(child) == content(root), "one record")
            node = child.broker.edge_node
            assert node is not None
            began = time.monotonic()
            link.swallow()
            await place(root, "pos-1", "POS", [], "http://127.0.0.1:1")
            await wait_until(lambda: node.topology is not None and node.topology.parents == (), "the move")
            assert time.monotonic() - began < 9  # It is parked for 1 s, and given up after 11.
            assert node.registry_fault == ""

    asyncio.run(run())


class Ticker:
    """The time in which this process had its turn: a busy machine takes from it, and gets no blame."""

    def __init__(self) -> None:
        self.ticks = 0

    @property
    def seconds(self) -> float:
        return self.ticks * TICK_S

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.ticks += 1


def test_a_changed_parent_leaves_a_gap_of_three_seconds_at_most(tmp_path: Path) -> None:
    """Records are written all the time; between two that arrive there is never more."""

    async def run() -> None:
        async with root_with(tmp_path, 1) as root:
            await call(root, "PUT", "/api/v1/edge/nodes/l2-1", {"role": "L2", "parents": ["root-1"]})
            async with edge_node(tmp_path, "l2-1", url(root)), edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: content(child) == content(root), "one record")
                pipe, log = child.broker.edge_node.pipe, child.broker.local_replicas.partitions[AT].log  # type: ignore[union-attr]
                ticker, gaps = Ticker(), [0.0]
                work = [asyncio.ensure_future(one) for one in (ticker.run(), _write_all_the_time(root))]
                for parent in ("l2-1", "root-1"):
                    await place(root, "pos-1", "POS", [parent], "http://127.0.0.1:1")
                    seen, since, until = log.end_offset, ticker.seconds, ticker.seconds + 4
                    while ticker.seconds < until or pipe.choice.current.node != parent:  # type: ignore[union-attr]
                        await asyncio.sleep(TICK_S)
                        if log.end_offset > seen:
                            gaps.append(ticker.seconds - since)
                            seen, since = log.end_offset, ticker.seconds
                    gaps.append(ticker.seconds - since)
                for one in work:
                    one.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                assert max(gaps) <= 3.0
                assert len(gaps) > 10

    asyncio.run(run())


async def _write_all_the_time(root: Node) -> None:
    number = 0
    while True:
        await call(root, "POST", "/produce", {"topic": "prices", "value": number})
        number += 1
        await asyncio.sleep(0.05)
