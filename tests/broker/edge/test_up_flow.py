"""The way up between brokers of this process: exactly once, whatever ends in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from tests.broker.edge.test_down_pipe import call, edge_node, url, wait_until

from qanat.app.node.node import Node
from qanat.broker.edge.http_client import HttpClient
from qanat.broker.edge.up_sender import UpRefusedError, UpState
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.edge.topology import Parent, Role, Topology
from qanat.edge.up_flow import Mark
from qanat.model.ids import TopicPartition
from qanat.wire.records import Record, encode_batch
from qanat.wire.staged import hide
from qanat.wire.up_messages import NamedUpload, UpRecords, UpStream, encode_records, upload_name

OUTBOX = TopicPartition("sales", 0)


async def plant(root: Node, *, partitions: int = 1) -> None:
    await call(root, "PUT", "/api/v1/edge/nodes/root-1", {"role": "ROOT", "url": url(root)})
    await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": ["root-1"]})
    await call(root, "POST", "/api/v1/topics", {"name": "all-sales", "partitions": partitions})


async def make_outbox(node: Node, more: Mapping[str, str] | None = None) -> None:
    configs = {"up.target": "all-sales", **(more or {})}
    await call(node, "POST", "/api/v1/topics", {"name": "sales", "partitions": 1, "configs": configs})


async def sell(node: Node, first: int, end: int, *, topic: str = "sales") -> None:
    for number in range(first, end):
        await call(node, "POST", "/produce", {"topic": topic, "value": number, "partition": 0})


async def sold(node: Node, topic: str = "all-sales") -> list[Any]:
    found: list[Any] = []
    offset = 0
    while True:
        answer = await call(node, "GET", f"/consume?topic={topic}&offset={offset}&isolation=read_committed")
        found += [one["value"] for one in answer["messages"]]
        if answer["next_offset"] == offset:
            return found
        offset = answer["next_offset"]


async def require_sold(node: Node, expected: list[Any]) -> None:
    """Markers of a committed transaction are written after its answer: until then nobody reads its records."""
    found: list[Any] = []
    for _ in range(600):
        found = await sold(node)
        if len(found) >= len(expected):
            break
        await asyncio.sleep(0.1)
    assert found == expected


def sender_of(node: Node) -> Any:
    assert node.broker.edge_node is not None
    return node.broker.edge_node.up.senders.get(OUTBOX)


def is_idle(node: Node) -> bool:
    sender = sender_of(node)
    return sender is not None and sender.state is UpState.IDLE


def test_records_of_an_outbox_go_up_once_and_are_deleted_here(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root)
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await make_outbox(child)
                await sell(child, 0, 10)
                await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 10, "all up")
                await require_sold(root, list(range(10)))
                assert sender_of(child).partition.log.log_start_offset == 10
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await sell(child, 10, 13)
                await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 13, "all up")
                await require_sold(root, list(range(13)))

    asyncio.run(run())


def test_only_committed_records_go_up_without_markers(tmp_path: Path) -> None:
    """An aborted transaction stays, a committed one goes; offsets of both count as passed."""

    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root, edge_node(tmp_path, "pos-1", url(root)) as child:
            await plant(root)
            await make_outbox(child)
            async with Cluster([("127.0.0.1", child.listener.port)], "a test", 20.0) as cluster:
                await _transactions(cluster)
            await sell(child, 7, 9)
            await wait_until(lambda: is_idle(child), "all up")
            assert sender_of(child).partition.log.log_start_offset == 8  # Three records, three markers, two records.
            await require_sold(root, [0, 2, 7, 8])
            assert root.broker.local_replicas.partitions[TopicPartition("all-sales", 0)].log.end_offset >= 4

    asyncio.run(run())


def test_a_child_that_returns_after_a_crash_sends_nothing_twice(tmp_path: Path) -> None:
    """The parent has appended, and the child did not hear of it: its log still begins where it began."""

    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root)
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await make_outbox(child)
                sender = None
                await wait_until(lambda: sender_of(child) is not None, "the outbox is found")
                sender = sender_of(child)
                sender._marked = _dies  # The answer is lost.
                await sell(child, 0, 5)
                await wait_until(lambda: sender.fault == "the answer was lost", "the loss")
                assert sender.partition.log.log_start_offset == 0
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: is_idle(child), "the mark")
                await sell(child, 5, 6)
                await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 6, "all up")
                await require_sold(root, list(range(6)))

    asyncio.run(run())


async def _transactions(cluster: Cluster) -> None:
    deadline = cluster.deadline()
    producer = await BatchProducer.transactional(cluster, "till", 60_000, deadline)
    for number, is_committed in enumerate((True, False, True)):
        await producer.send("sales", {0: encode_batch([Record(0, 5, None, b"%d" % number)])}, deadline)
        await producer.end(deadline, is_committed=is_committed)


async def _dies(mark: Mark) -> None:
    raise UpRefusedError("the answer was lost")


def test_a_topic_that_was_made_again_stops_the_outbox_until_its_operator_decides(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root, edge_node(tmp_path, "pos-1", url(root)) as child:
            await plant(root)
            await make_outbox(child)
            await sell(child, 0, 3)
            await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 3, "three up")
            await call(root, "DELETE", "/api/v1/topics/all-sales")
            await call(root, "POST", "/api/v1/topics", {"name": "all-sales", "partitions": 1})
            await sell(child, 3, 5)
            await wait_until(lambda: sender_of(child).state is UpState.STOPPED, "the stop")
            edge = (await call(child, "GET", "/health"))["edge"]
            (row,) = edge["outboxes"]
            assert (row["state"], row["lag_records"], edge["up_lag_records"]) == ("STOPPED", 2, 2)
            assert "it was deleted and made again" in row["fault"]
            await require_sold(root, [])
            await call(child, "PATCH", "/api/v1/topics/sales", {"configs": {"up.on.mismatch": "resend"}})
            await wait_until(lambda: is_idle(child), "what was still there")
            await require_sold(root, [3, 4])

    asyncio.run(run())


def test_an_outbox_that_is_made_again_begins_anew(tmp_path: Path) -> None:
    """Its offsets begin at 0, where the mark of the former one is long past."""

    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root, edge_node(tmp_path, "pos-1", url(root)) as child:
            await plant(root)
            await make_outbox(child)
            await sell(child, 0, 3)
            await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 3, "three up")
            await call(child, "DELETE", "/api/v1/topics/sales")
            await make_outbox(child)
            await sell(child, 3, 5)
            await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 2, "two more up")
            await require_sold(root, [0, 1, 2, 3, 4])

    asyncio.run(run())


def test_a_full_outbox_refuses_and_goes_on_when_the_parent_has_taken_some(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root)
            async with edge_node(tmp_path, "pos-1") as alone:  # Its parent is away.
                await make_outbox(alone, {"up.bytes.max": "65536", "up.wait.ms": "0", "retention.ms": "1"})
                text = "x" * 20_000
                for number in range(4):
                    await call(alone, "POST", "/produce", {"topic": "sales", "value": f"{number}{text}"})
                status, refused = await ask(alone, "POST", "/produce", {"topic": "sales", "value": text})
                assert (status, refused["error"]) == (503, "KAFKA_STORAGE_ERROR")
                assert "sales-0 is full" in refused["detail"]
                assert "up.bytes.max is 65536" in refused["detail"]
                status, refused = await ask(alone, "DELETE", "/api/v1/topics/sales/records", {"offsets": {"0": 2}})
                assert refused["error"] == "POLICY_VIOLATION"
                log = alone.broker.local_replicas.partitions[OUTBOX].log
                await alone.broker.runtime.expire(log)
                assert (log.log_start_offset, log.end_offset) == (0, 4)  # Retention deletes nothing.
                await call(alone, "PATCH", "/api/v1/topics/sales", {"configs": {"up.wait.ms": "60000"}})
            async with edge_node(tmp_path, "pos-1", "http://127.0.0.1:1") as child:
                waiting = asyncio.ensure_future(call(child, "POST", "/produce", {"topic": "sales", "value": "late"}))
                await asyncio.sleep(0.3)
                assert not waiting.done()
                assert child.broker.edge_node is not None
                child.broker.edge_node._steer(Topology("pos-1", 1, Role.POS, (Parent("root-1", url(root)),)))
                await waiting
                await wait_until(lambda: is_idle(child), "all up")
                await require_sold(root, [*(f"{number}{text}" for number in range(4)), "late"])

    asyncio.run(run())


def test_another_parent_gets_what_the_former_one_has_not(tmp_path: Path) -> None:
    """The former one is asked first: it may have records of which the child knows nothing."""

    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root, edge_node(tmp_path, "l2-1", url(root)) as middle:
            await plant(root)
            await call(root, "PUT", "/api/v1/edge/nodes/l2-1", {"role": "L2", "parents": ["root-1"], "topics": ["no"]})
            await call(middle, "POST", "/api/v1/topics", {"name": "all-sales", "configs": {"up.target": "all-sales"}})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await make_outbox(child)
                await sell(child, 0, 3)
                await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 3, "three up")
                sender = sender_of(child)
                sender._marked = _dies
                await sell(child, 3, 4)
                await wait_until(lambda: sender.fault == "the answer was lost", "the loss")
                await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": ["l2-1"]})
                await wait_until(lambda: child.broker.edge_node.up.parent.node == "l2-1", "the move")  # type: ignore[union-attr]
                del sender._marked
                await sell(child, 4, 6)
                await wait_until(lambda: is_idle(child) and sender_of(child).partition.log.end_offset == 6, "all up")
            up = middle.broker.edge_node.up  # type: ignore[union-attr]
            await wait_until(lambda: bool(up.senders) and up.lag_records == 0, "all up from the middle")
            await require_sold(root, [0, 1, 2, 3, 4, 5])
            assert up.sent_records == 2

    asyncio.run(run())


def test_a_later_process_of_a_child_fences_the_earlier_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root)
            stream = {"instance": "copied", "outbox_id": "box", "partition": 0, "target": "all-sales"}
            begun = await call(root, "POST", "/api/v1/edge/up/begin", {"stream": stream})
            again = await call(root, "POST", "/api/v1/edge/up/begin", {"stream": stream})
            assert again["epoch"] > begun["epoch"]
            content = _upload(b"late")
            for epoch, expected in ((begun["epoch"], 409), (again["epoch"], 200), (again["epoch"], 200)):
                named = NamedUpload(begun["topic_id"], 0, 1, epoch, 1)
                head = UpRecords(msgspec.convert(stream, UpStream), upload_name(content), 0, named)
                status, answer = await ask(root, "POST", "/api/v1/edge/up", encode_records(head, content))
                assert status == expected, answer
            await require_sold(root, ["late"])

    asyncio.run(run())


def _upload(value: bytes) -> bytearray:
    batch = encode_batch([Record(0, 5, None, value)])
    hide(batch)
    return batch


def test_what_is_no_upload_is_refused_in_one_sentence(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root)
            stream = {"instance": "i", "outbox_id": "o", "partition": 0, "target": "all-sales"}
            for wrong, expected in (
                ({"target": "none"}, "create it here, or correct up.target"),
                ({"target": "__consumer_offsets"}, "only brokers write to it"),
                ({"instance": "../x"}, "instance should have"),
                ({"partition": -1}, "partition should be"),
            ):
                status, refused = await ask(root, "POST", "/api/v1/edge/up/begin", {"stream": {**stream, **wrong}})
                assert 400 <= status < 500
                assert expected in refused["detail"], refused
            for body in (b"", b"\x00\x00\x00\xffno", b"\x00\x00\x00\x02{}", b"\xff\xff\xff\xff"):
                status, refused = await ask(root, "POST", "/api/v1/edge/up", body)
                assert status == 400, refused
            head = UpRecords(msgspec.convert(stream, UpStream), "../../etc", 0)
            status, refused = await ask(root, "POST", "/api/v1/edge/up", encode_records(head, b"x"))
            assert status == 400, refused

    asyncio.run(run())


async def ask(node: Node, method: str, path: str, body: Any) -> tuple[int, Any]:
    assert node.http is not None
    client = HttpClient(node.http.address)
    try:
        encoded = body if isinstance(body, bytes | bytearray) else msgspec.json.encode(body)
        answer = await client.request(method, path, body=bytes(encoded), wait_s=20.0)
    finally:
        await client.close()
    return answer.status, msgspec.json.decode(answer.body)


def test_the_registry_shows_what_a_node_still_has_to_send(tmp_path: Path) -> None:
    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root:
            await plant(root)
            await call(root, "DELETE", "/api/v1/topics/all-sales")
            more = {"registry.poll.interval.ms": "100"}
            async with edge_node(tmp_path, "pos-1") as alone:
                await make_outbox(alone)
                await sell(alone, 0, 3)
            async with edge_node(tmp_path, "pos-1", url(root), **more):
                pass  # It registers, and begins to ask.
            async with edge_node(tmp_path, "pos-1", url(root), **more) as child:
                await wait_until(
                    lambda: "create it here" in (sender_of(child).fault if sender_of(child) else ""), "why"
                )
                for parents in (["root-1"], []):  # A change ends the question that waits; the next one has the state.
                    await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": parents})
                found: dict[str, Any] = {}
                for _ in range(600):
                    rows = (await call(root, "GET", "/api/v1/edge/nodes"))["nodes"]
                    found = next(one["state"] for one in rows if one["node"] == "pos-1") or {}
                    if found.get("up_lag_records") == 3:
                        break
                    await asyncio.sleep(0.1)
                assert found["up_lag_records"] == 3

    asyncio.run(run())
