"""A pipe between two brokers of this process: epochs, truncation, gaps, and what a restart remembers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec.structs import replace

from qanat.app.node.node import Node
from qanat.app.settings.loading import load
from qanat.app.settings.source_value import SourceValue
from qanat.broker.edge.http_client import HttpClient
from qanat.cluster import keys, values
from qanat.cluster.store import Put
from qanat.edge.mirror import Gap
from qanat.model.ids import TopicPartition

AT = TopicPartition("prices", 0)
TIMEOUT_S = 60.0


@asynccontextmanager
async def edge_node(folder: Path, name: str, registry: str = "", **more: str) -> AsyncIterator[Node]:
    given = {"node.id": name, "data.dir": str(folder / name), "port": "0", "http.port": "0", **more}
    if registry:
        given["registry.url"] = registry
    settings = load([SourceValue(key, value, "a test") for key, value in given.items()], None, {}).settings
    async with Node(settings) as node:
        yield node


async def call(node: Node, method: str, path: str, body: Any = None) -> Any:
    assert node.http is not None
    client = HttpClient(node.http.address)
    try:
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await client.request(method, path, body=encoded, wait_s=20.0)
    finally:
        await client.close()
    assert answer.status < 300, answer.body
    return msgspec.json.decode(answer.body)


async def write(node: Node, first: int, end: int) -> None:
    for number in range(first, end):
        await call(node, "POST", "/produce", {"topic": "prices", "value": {"number": number}})


async def wait_until(holds: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not holds():  # noqa: ASYNC110 - what it waits for has no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {TIMEOUT_S} s: {what}") from None


def content(node: Node) -> bytes:
    partition = node.broker.local_replicas.partitions.get(AT)
    if partition is None:
        return b""
    return b"".join(one.read_bytes() for one in sorted(Path(partition.log.directory).glob("*.log")))


async def raise_epoch(node: Node, by: int) -> None:
    """As an election does."""
    metadata = node.broker.metadata
    topic = metadata.image.topics["prices"]
    state = metadata.image.state(topic, 0)
    raised = replace(state, leader_epoch=state.leader_epoch + by)
    put = Put(keys.partition(topic.identity, 0), values.encode(raised, metadata.image.format_level))
    assert await metadata.commit([], [put])
    await wait_until(
        lambda: node.broker.local_replicas.partitions[AT].leader_epoch == raised.leader_epoch, "the next epoch"
    )


@asynccontextmanager
async def root_with(folder: Path, records: int) -> AsyncIterator[Node]:
    async with edge_node(folder, "root-1") as root:
        assert root.http is not None
        await call(root, "PUT", "/api/v1/edge/nodes/root-1", {"role": "ROOT", "url": root.http.address})
        await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": ["root-1"]})
        await call(root, "POST", "/api/v1/topics", {"name": "prices", "partitions": 1})
        await write(root, 0, records)
        yield root


def url(node: Node) -> str:
    assert node.http is not None
    return node.http.address


def test_a_mirror_has_the_epochs_of_its_origin_and_a_state_that_is_not_behind(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 3) as root:
            await raise_epoch(root, 7)
            await write(root, 3, 5)
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: content(child) == content(root), "five records")
                ours, theirs = child.broker.local_replicas.partitions[AT], root.broker.local_replicas.partitions[AT]
                assert ours.log.epochs == theirs.log.epochs
                assert ours.leader_epoch >= 7
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                log = child.broker.local_replicas.partitions[AT].log
                assert log.epochs == root.broker.local_replicas.partitions[AT].log.epochs

    asyncio.run(run())


def test_a_child_goes_on_at_a_parent_of_another_level(tmp_path: Path) -> None:
    """The parent of its parent has the same records: moving there and back reads nothing twice."""

    async def run() -> None:
        async with root_with(tmp_path, 3) as root:
            await call(root, "PUT", "/api/v1/edge/nodes/l2-1", {"role": "L2", "parents": ["root-1"]})
            async with edge_node(tmp_path, "l2-1", url(root)) as middle:
                await wait_until(lambda: content(middle) == content(root), "three records")
                await _move_to(root, "l2-1")
                async with edge_node(tmp_path, "pos-1", url(root)) as child:
                    await wait_until(lambda: content(child) == content(root), "three records over two levels")
                    assert child.broker.edge_node is not None
                    for number, parent in enumerate(("root-1", "l2-1")):
                        await _move_to(root, parent)
                        began = time.monotonic()
                        await write(root, 10 * number, 10 * number + 5)
                        await wait_until(lambda: content(child) == content(root), f"five more from {parent}")
                        # A pipe that had to wait out a request to its former parent would take 25 s.
                        assert time.monotonic() - began < 20
                        current = child.broker.edge_node.pipe.choice.current
                        assert current is not None
                        assert current.node == parent
                    assert child.broker.edge_node.mirrors.conflicts == {}
                    assert child.broker.edge_node.mirrors.appended_records == 13

    asyncio.run(run())


async def _move_to(root: Node, parent: str) -> None:
    await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": [parent]})


def test_a_mirror_is_cut_where_its_parent_has_other_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 10) as root, edge_node(tmp_path, "pos-1", url(root)) as child:
            await wait_until(lambda: content(child) == content(root), "ten records")
            await root.broker.local_replicas.cut_mirror(AT, lambda log: root.broker.runtime.truncate(log, 6))
            await raise_epoch(root, 1)
            await write(root, 100, 102)
            await wait_until(lambda: content(child) == content(root), "the history of the parent")
            assert child.broker.edge_node is not None
            assert child.broker.edge_node.mirrors.truncations == 1
            await wait_until(lambda: child.broker.local_replicas.partitions[AT].log.high_watermark == 8, "readable")

    asyncio.run(run())


def test_a_gap_stops_a_mirror_until_its_operator_lets_it_be_skipped(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 5) as root:
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: content(child) == content(root), "five records")
            await write(root, 5, 15)
            await call(root, "DELETE", "/api/v1/topics/prices/records", {"offsets": {"0": 9}})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                mirrors = child.broker.edge_node.mirrors
                await wait_until(lambda: mirrors.stopped == {AT: Gap(5, 9)}, "the exact range")
                assert child.broker.local_replicas.partitions[AT].log.end_offset == 5
                health = await call(child, "GET", "/health")
                assert health["edge"]["stopped"] == [{"topic": "prices", "partition": 0, "first": 5, "end": 9}]
            async with edge_node(tmp_path, "pos-1", url(root), **{"pipe.on.gap": "skip"}) as child:
                assert child.broker.edge_node is not None
                log = child.broker.local_replicas.partitions[AT].log
                await wait_until(lambda: log.end_offset == 15, "what the parent still has")
                assert child.broker.edge_node.mirrors.gaps(AT) == (Gap(5, 9),)
                assert log.log_start_offset == 0
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                assert child.broker.edge_node.mirrors.gaps(AT) == (Gap(5, 9),)
                metrics = child.broker.edge_node.mirrors
                assert sum(gap.end - gap.first for gap in metrics.gaps(AT)) == 4

    asyncio.run(run())


def test_a_topic_with_records_of_its_own_is_left_alone_and_reported(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 2) as root:
            async with edge_node(tmp_path, "pos-1") as alone:
                await call(alone, "POST", "/api/v1/topics", {"name": "prices", "partitions": 1})
                await write(alone, 50, 51)
                before = content(alone)
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                conflicts = child.broker.edge_node.mirrors.conflicts
                await wait_until(lambda: "prices" in conflicts, "the report")
                assert "has records of its own" in conflicts["prices"]
                assert content(child) == before
                await write(child, 51, 52)

    asyncio.run(run())


SYMBOLS = ("AAPL", "GOOGL", "MSFT", "TSLA", "AMZN")


class Feed(BaseHTTPRequestHandler):
    """A feed of five prices in JSON, two at a time."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: value[0] for name, value in parse_qs(parts.query).items()}
        assert parts.path == "/api/v1/edge/feed/prices"
        assert asked["node"] == "pos-1"
        first = int(asked["offset"])
        end = min(first + 2, len(SYMBOLS))
        messages = [{"offset": at, "key": SYMBOLS[at], "value": {"price": at}} for at in range(first, end)]
        body = json.dumps({"topic": "prices", "messages": messages, "next_offset": max(first, end)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        pass


def test_a_feed_in_json_is_stored_once_at_its_own_offsets(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Feed)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    async def run() -> None:
        feed = f"http://127.0.0.1:{server.server_address[1]}"
        more = {"pipe.poll.interval.ms": "50"}
        async with edge_node(tmp_path, "registry") as registry:
            await call(registry, "PUT", "/api/v1/edge/nodes/feed", {"role": "ROOT", "url": feed, "dialect": "json"})
            place = {"role": "LOCAL", "parents": ["feed"], "topics": ["prices"]}
            await call(registry, "PUT", "/api/v1/edge/nodes/pos-1", place)
            for _ in range(2):  # After a restart nothing is stored again.
                async with edge_node(tmp_path, "pos-1", url(registry), **more) as child:
                    logs = child.broker.local_replicas.logs
                    await wait_until(lambda: AT in logs and logs[AT].high_watermark == 5, "five prices")  # noqa: B023
                    found = await call(child, "GET", "/consume?topic=prices&offset=0")
                    assert [(one["offset"], one["key"]) for one in found["messages"]] == list(enumerate(SYMBOLS))
                    assert found["next_offset"] == 5

    try:
        asyncio.run(run())
    finally:
        server.shutdown()
        server.server_close()


def test_a_node_follows_its_kept_topology_when_the_registry_is_away(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 2) as root:
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: content(child) == content(root), "two records")
            await write(root, 2, 4)
            async with edge_node(tmp_path, "pos-1", "http://127.0.0.1:1") as child:
                await wait_until(lambda: content(child) == content(root), "four records")
                assert child.broker.edge_node is not None
                assert "nothing listens there" in child.broker.edge_node.registry_fault

    asyncio.run(run())
