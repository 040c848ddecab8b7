"""Pipes that carry some keys: offsets and transactions as at the parent, and nothing missing in silence."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.broker.edge.test_down_pipe import AT, call, edge_node, url, wait_until

from qanat.app.node.node import Node
from qanat.broker.edge.http_client import HttpClient
from qanat.broker.edge.json_feed import ask_feed
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.edge.feeds import FeedAnswer, FeedMessage
from qanat.wire.batch_header import read_header
from qanat.wire.compression import Codec
from qanat.wire.pipe_answer import PipePosition
from qanat.wire.records import Record, decode_records, encode_batch

STORES = ("store-1", "store-2", "common-a", None)


async def plant(root: Node, *, topics: list[str], middle: list[str] | None = None) -> None:
    await call(root, "PUT", "/api/v1/edge/nodes/root-1", {"role": "ROOT", "url": url(root)})
    if middle is not None:
        await call(root, "PUT", "/api/v1/edge/nodes/l2-1", {"role": "L2", "parents": ["root-1"], "topics": middle})
    parent = "root-1" if middle is None else "l2-1"
    await place(root, parent, topics)
    await call(root, "POST", "/api/v1/topics", {"name": "prices", "partitions": 1})


async def place(root: Node, parent: str, topics: list[str]) -> None:
    await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": [parent], "topics": topics})


def batch(first: int, end: int, codec: Codec = Codec.NONE) -> bytearray:
    """Records whose keys take turns."""
    keys = [STORES[number % 4] for number in range(first, end)]
    records = [
        Record(at, 1000 + first + at, None if key is None else key.encode(), b"%d" % (first + at))
        for at, key in enumerate(keys)
    ]
    return encode_batch(records, codec=codec)


async def write(root: Node, *batches: bytearray) -> None:
    async with Cluster([("127.0.0.1", root.listener.port)], "a test", 20.0) as cluster:
        producer = await BatchProducer.idempotent(cluster, cluster.deadline())
        for one in batches:
            await producer.send("prices", {0: one}, cluster.deadline())


async def read(node: Node) -> list[tuple[int, str | None, Any]]:
    found: list[tuple[int, str | None, Any]] = []
    offset = 0
    while True:
        answer = await call(node, "GET", f"/consume?topic=prices&offset={offset}&isolation=read_committed")
        found += [(one["offset"], one["key"], one["value"]) for one in answer["messages"]]
        if answer["next_offset"] == offset:
            return found
        offset = answer["next_offset"]


def end_of(node: Node) -> int:
    log = node.broker.local_replicas.logs.get(AT)
    return -1 if log is None else log.high_watermark


def some(records: list[tuple[int, str | None, Any]], *keys: str) -> list[tuple[int, str | None, Any]]:
    return [one for one in records if one[1] in keys]


def test_records_of_some_keys_have_their_offsets_at_every_level(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root, topics=["prices:store-1"], middle=["prices:store-*"])
            await write(root, batch(0, 8), batch(8, 9), batch(9, 10), batch(10, 40, Codec.ZSTD), batch(43, 44))
            whole = await read(root)
            assert len(whole) == 41
            async with edge_node(tmp_path, "l2-1", url(root)) as middle:
                async with edge_node(tmp_path, "pos-1", url(root)) as leaf:
                    await wait_until(lambda: end_of(leaf) == end_of(root) == 41, "the end at the leaf")
                    assert await read(middle) == some(whole, "store-1", "store-2")
                    assert await read(leaf) == some(whole, "store-1")
                    topic = await call(leaf, "GET", "/api/v1/topics/prices")
                    assert topic["configs"]["mirror.keys"] == "store-1"
                async with edge_node(tmp_path, "pos-1", url(root)) as leaf:
                    await write(root, batch(0, 4))
                    await wait_until(lambda: end_of(leaf) == end_of(root) == 45, "the end after a restart")
                    assert await read(leaf) == some(await read(root), "store-1")

    asyncio.run(run())


def test_an_aborted_transaction_is_one_below_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root, topics=["prices:store-1", "prices:common-*"])
            async with Cluster([("127.0.0.1", root.listener.port)], "a test", 20.0) as cluster:
                deadline = cluster.deadline()
                producer = await BatchProducer.transactional(cluster, "till", 60_000, deadline)
                for is_committed, (first, end) in ((True, (0, 8)), (False, (0, 8)), (False, (1, 2)), (True, (1, 4))):
                    await producer.send("prices", {0: batch(first, end)}, deadline)
                    await producer.end(deadline, is_committed=is_committed)
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: end_of(child) == end_of(root) == 24, "the end of four transactions")
                whole = await read(root)
                assert len(whole) == 11
                assert await read(child) == some(whole, "store-1", "common-a")

    asyncio.run(run())


def test_other_keys_than_a_mirror_has_are_refused_and_reported(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root, topics=["prices:store-1"])
            await write(root, batch(0, 8))
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: end_of(child) == 8, "the first records")
                assert child.broker.edge_node is not None
                conflicts = child.broker.edge_node.mirrors.conflicts
                await place(root, "root-1", ["prices"])
                await wait_until(lambda: "prices" in conflicts, "the report")
                await write(root, batch(0, 8))
                assert "has the keys store-1 here, and its parent would give all its records" in conflicts["prices"]
                await place(root, "root-1", ["prices:store-1"])
                await wait_until(lambda: end_of(child) == 16, "what came meanwhile")
                assert conflicts == {}
                assert await read(child) == some(await read(root), "store-1")

    asyncio.run(run())


def test_a_parent_without_the_keys_is_left_alone_and_one_with_more_of_them_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root, topics=["prices:common-*"], middle=["prices:store-*"])
            await write(root, batch(0, 8))
            async with (
                edge_node(tmp_path, "l2-1", url(root)) as middle,
                edge_node(tmp_path, "pos-1", url(root)) as leaf,
            ):
                await wait_until(lambda: end_of(middle) == 8, "the records in the middle")
                assert leaf.broker.edge_node is not None
                conflicts = leaf.broker.edge_node.mirrors.conflicts
                await wait_until(lambda: "prices" in conflicts, "the report")
                assert conflicts["prices"] == "the parent has only the keys store-* of topic prices"
                await place(root, "root-1", ["prices:common-*"])
                await wait_until(lambda: end_of(leaf) == 8, "the records of the root")
                assert await read(leaf) == some(await read(root), "common-a")

    asyncio.run(run())


def test_keys_that_are_none_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root, topics=["*"])
            body = b'{"node": "pos-1", "partitions": [%s]}'
            client = HttpClient(url(root))
            for keys, reason in ((b'["a,b"]', b"is no key to filter by"), (b'[""]', b"is no key to filter by")):
                position = b'{"topic": "prices", "partition": 0, "offset": 0, "keys": %s}' % keys
                answer = await client.request("POST", "/api/v1/edge/pipe", body=body % position)
                assert answer.status == 400
                assert reason in answer.body
            place = b'{"role": "POS", "parents": ["root-1"], "topics": ["prices:"]}'
            answer = await client.request("PUT", "/api/v1/edge/nodes/pos-1", body=place)
            assert (answer.status, b"topics: '' is no key to filter by" in answer.body) == (400, True)
            await client.close()

    asyncio.run(run())


class FeedOfFour:
    """Messages of four keys, all at once."""

    async def pull(self, topic: str, offset: int, limit: int, wait_s: float) -> FeedAnswer:
        messages = [FeedMessage(at, key=key, value=str(at)) for at, key in enumerate(STORES)]
        return FeedAnswer(messages[offset:], next_offset=6)

    async def close(self) -> None:
        """Nothing is held."""


def test_a_feed_is_filtered_by_the_node() -> None:
    for keys, kept in ((("store-*",), [0, 1]), (("none",), []), ((), [0, 1, 2, 3])):
        asked = PipePosition("prices", 0, 0, keys=keys)
        piece, records = asyncio.run(ask_feed(FeedOfFour(), asked, 100, 0.0))
        header = read_header(records)
        assert (header.base_offset, header.next_offset, piece.keys) == (0, 6, keys)
        assert [one.offset for one in decode_records(records, 1 << 20)] == kept
