"""Which partitions a mirror has, and where it begins: added ones, and records that were lost before it had any."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.broker.edge.test_down_pipe import AT, call, content, edge_node, root_with, url, wait_until, write

from qanat.edge.mirror import Gap
from qanat.model.ids import TopicPartition


def test_records_that_came_and_went_after_a_child_mirrored_an_empty_topic_are_a_gap(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 0) as root:
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                mirrors = child.broker.edge_node.mirrors
                await wait_until(lambda: bool(mirrors._begun), "the first answer")
            await write(root, 0, 6)
            await call(root, "DELETE", "/api/v1/topics/prices/records", {"offsets": {"0": 4}})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                mirrors = child.broker.edge_node.mirrors
                await wait_until(lambda: mirrors.stopped == {AT: Gap(0, 4)}, "the exact range")
            async with edge_node(tmp_path, "pos-1", url(root), **{"pipe.on.gap": "skip"}) as child:
                assert child.broker.edge_node is not None
                log = child.broker.local_replicas.partitions[AT].log
                await wait_until(lambda: log.high_watermark == 6, "what the parent still has")
                assert child.broker.edge_node.mirrors.gaps(AT) == (Gap(0, 4),)
                found = await call(child, "GET", "/consume?topic=prices&offset=4")
                assert [one["value"]["number"] for one in found["messages"]] == [4, 5]

    asyncio.run(run())


def test_a_child_that_never_had_an_answer_begins_where_its_parent_begins(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 6) as root:
            await call(root, "DELETE", "/api/v1/topics/prices/records", {"offsets": {"0": 4}})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                await wait_until(lambda: AT in child.broker.local_replicas.partitions, "the mirror")
                log = child.broker.local_replicas.partitions[AT].log
                await wait_until(lambda: log.high_watermark == 6, "two records")
                assert log.log_start_offset == 4
                assert child.broker.edge_node.mirrors.gaps(AT) == ()

    asyncio.run(run())


def test_partitions_that_are_added_at_the_parent_are_added_to_its_mirror(tmp_path: Path) -> None:
    """Also those of which the first records are gone before the child hears of them."""

    async def run() -> None:
        async with root_with(tmp_path, 1) as root:
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: content(child) == content(root), "one record")
            await call(root, "POST", "/api/v1/topics/prices/partitions", {"partitions": 3})
            for number in range(5):
                await call(root, "POST", "/produce", {"topic": "prices", "partition": 2, "value": number})
            await call(root, "DELETE", "/api/v1/topics/prices/records", {"offsets": {"2": 2}})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                assert child.broker.edge_node is not None
                mirrors, logs = child.broker.edge_node.mirrors, child.broker.local_replicas.logs
                last = TopicPartition("prices", 2)
                await wait_until(lambda: mirrors.stopped == {last: Gap(0, 2)}, "what the new partition has lost")
                await call(root, "POST", "/produce", {"topic": "prices", "partition": 1, "value": "more"})
                await wait_until(lambda: logs[TopicPartition("prices", 1)].high_watermark == 1, "the other new one")
                assert mirrors.conflicts == {}

    asyncio.run(run())


def test_a_parent_with_fewer_partitions_is_reported_and_feeds_those_that_it_has(tmp_path: Path) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 1) as root, edge_node(tmp_path, "pos-1", url(root)) as child:
            await wait_until(lambda: content(child) == content(root), "one record")
            await call(child, "POST", "/api/v1/topics/prices/partitions", {"partitions": 2})
            assert child.broker.edge_node is not None
            conflicts = child.broker.edge_node.mirrors.conflicts
            await wait_until(lambda: "has 1 partitions of topic prices" in conflicts.get("prices", ""), "the report")
            await write(root, 1, 2)
            await wait_until(lambda: content(child) == content(root), "two records")

    asyncio.run(run())
