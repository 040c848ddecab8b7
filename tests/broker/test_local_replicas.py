"""What a broker does with its data directory at a start, and with what others commit to the store while it runs."""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qanat.adapters.sqlite_store import SqliteStore
from qanat.api.topics import metadata
from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.broker.broker import Broker
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.partition import Partition
from qanat.broker.settings import topic_settings
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_configs import ConfigPlan, decide_all_configs
from qanat.cluster.topics import CreateTopic, TopicPlan, decide_create, decide_delete
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CorruptLogError, StorageError
from qanat.model.ids import TopicId, TopicPartition
from qanat.telemetry.events import FIELDS
from qanat.wire.records import Record, encode_batch

PATIENCE_S = 30.0
Plan = TopicPlan | ConfigPlan | Rejection
AT = TopicPartition("orders", 1)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Node]:
    told = {"data.dir": str(folder / "data"), "port": 0}
    settings = load([flag(name, value, name) for name, value in told.items()], None, {}).settings
    async with Node(settings) as node:
        yield node


async def create(node: Node, name: str, partitions: int = 2) -> TopicId:
    request = CreateTopic(name, node.broker.metadata_changes.new_topic_id(), partitions=partitions)
    outcome = await node.broker.metadata_changes.create_topic(request)
    assert not isinstance(outcome, Rejection), outcome
    return outcome.topic.identity


async def delete(broker: Broker, name: str) -> None:
    outcome = await broker.metadata_changes.carry_out(lambda image: decide_delete(image, name))
    assert not isinstance(outcome, Rejection), outcome


def append(broker: Broker, at: TopicPartition) -> None:
    partition = broker.lookup.led(at.topic, at.partition)
    assert isinstance(partition, Partition), partition
    partition.append_own(encode_batch([Record(0, 0, b"key", b"value")]))


def end_offset(broker: Broker, at: TopicPartition) -> int:
    partition = broker.lookup.led(at.topic, at.partition)
    assert isinstance(partition, Partition), partition
    return partition.log.end_offset


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - other tasks do it
            await asyncio.sleep(0.01)


def spoil(folder: Path, at: TopicPartition) -> None:
    """Make a partition impossible to open: its segment is a dangling link."""
    (segment,) = (folder / "data" / "broker-0" / str(at)).glob("*.log")
    segment.unlink()
    segment.symlink_to(segment)


def folders(folder: Path) -> list[str]:
    """Folders of topics' partitions, without those that only mark a deletion since the last checkpoint."""
    found = sorted((folder / "data" / "broker-0").glob("orders-*"))
    return [path.name for path in found if not (path.name.endswith("-delete") and not list(path.iterdir()))]


async def test_a_partition_that_cannot_be_opened_holds_up_no_other(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        topic_id = await create(node, "orders")
        append(node.broker, TopicPartition("orders", 0))
    spoil(tmp_path, AT)

    async with running(tmp_path) as node:
        broker = node.broker
        assert list(node.directory.offline) == [AT]
        assert broker.lookup.led("orders", 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.lookup.writable("orders", 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.lookup.led_by_id(topic_id.value.bytes, 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert end_offset(broker, TopicPartition("orders", 0)) == 1
        append(broker, TopicPartition("orders", 0))
        told = metadata.describe(broker, broker.metadata.image.topics["orders"]).partitions
        assert [(one.error_code, one.leader_id, one.offline_replicas) for one in told] == [
            (ErrorCode.NONE, broker.node_id, []),
            (ErrorCode.LEADER_NOT_AVAILABLE, -1, [broker.node_id]),
        ]

        await delete(broker, "orders")
        assert broker.lookup.led("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert folders(tmp_path) == []
        await create(node, "orders")
        assert end_offset(broker, AT) == 0


async def test_a_partition_whose_folder_was_removed_does_not_come_back_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as node:
        await create(node, "orders")
        append(node.broker, AT)
    folder = tmp_path / "data" / "broker-0" / str(AT)
    folder.rename(tmp_path / "elsewhere")

    for _ in range(2):
        with caplog.at_level(logging.INFO, "qanat"):
            async with running(tmp_path) as node:
                broker = node.broker
                assert broker.lookup.led("orders", 1) is ErrorCode.KAFKA_STORAGE_ERROR
                assert end_offset(broker, TopicPartition("orders", 0)) == 0
                (reason,) = [str(fault) for at, fault in node.directory.offline.items() if at == AT]
                assert f"{folder} is gone" in reason
                assert "make an empty one in its place" in reason
                await create(node, f"another-{uuid.uuid4().hex}")
        assert not folder.exists()

    (tmp_path / "elsewhere").rename(folder)
    async with running(tmp_path) as node:
        assert end_offset(node.broker, AT) == 1
    shutil.rmtree(folder)
    folder.mkdir()
    async with running(tmp_path) as node:
        assert end_offset(node.broker, AT) == 0
        append(node.broker, AT)


async def test_damage_that_a_read_meets_is_told_once_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as node:
        await create(node, "orders")
        for _ in range(3):
            append(node.broker, AT)
    (segment,) = (tmp_path / "data" / "broker-0" / str(AT)).glob("*.log")
    content = segment.read_bytes()
    size = len(content) // 3
    segment.write_bytes(content[: size + 8] + b"\xff" * 9 + content[size + 17 :])

    with caplog.at_level(logging.INFO, "qanat"):
        async with running(tmp_path) as node:
            partition = node.broker.lookup.led("orders", 1)
            assert isinstance(partition, Partition)
            for _ in range(3):
                with pytest.raises(
                    CorruptLogError, match=r"orders-1: offsets 1 to 2 \(exclusive\) are damaged on disk"
                ):
                    await partition.read(1, 100, 3)
            assert (await partition.read(2, 100, 3)).next_offset == 3
    (fields,) = [getattr(one, FIELDS) for one in caplog.records if one.getMessage() == "partition is damaged"]
    assert {name: fields[name] for name in ("partition", "segment", "byte", "offsets")} == {
        "partition": "orders-1",
        "segment": str(segment),
        "byte": size,
        "offsets": "1 to 1",
    }
    assert "qanat log verify" in fields["advice"]


async def test_a_topic_whose_folder_was_removed_can_be_deleted_and_made_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "orders")
        append(node.broker, AT)
    shutil.rmtree(tmp_path / "data" / "broker-0" / str(AT))

    async with running(tmp_path) as node:
        assert node.broker.lookup.led("orders", 1) is ErrorCode.KAFKA_STORAGE_ERROR
        await delete(node.broker, "orders")
        await create(node, "orders")
        assert end_offset(node.broker, AT) == 0


async def test_the_log_of_a_topic_that_was_deleted_meanwhile_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as node:
        await create(node, "orders")
        append(node.broker, AT)
    spoil(tmp_path, TopicPartition("orders", 0))
    await _commit_elsewhere(tmp_path, lambda image: decide_delete(image, "orders"))

    with caplog.at_level(logging.INFO, "qanat"):
        async with running(tmp_path) as node:
            assert folders(tmp_path) == []
            assert node.broker.lookup.led("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [record.getMessage() for record in caplog.records].count(
        "partition removed: its topic was deleted meanwhile"
    ) == 2


async def test_the_log_of_a_topic_that_was_made_anew_meanwhile_is_replaced(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "orders")
        append(node.broker, AT)
    await _commit_elsewhere(tmp_path, lambda image: decide_delete(image, "orders"))
    await _commit_elsewhere(tmp_path, _creation("orders"))

    async with running(tmp_path) as node:
        assert end_offset(node.broker, AT) == 0


async def test_a_log_that_is_newer_than_the_store_is_set_aside(tmp_path: Path) -> None:
    store = tmp_path / "data" / "metadata.db"
    async with running(tmp_path) as node:
        await create(node, "older")
    shutil.copy(store, tmp_path / "backup.db")
    async with running(tmp_path) as node:
        await create(node, "orders")
        append(node.broker, AT)
    shutil.copy(tmp_path / "backup.db", store)

    for _ in range(3):
        async with running(tmp_path) as node:
            assert node.broker.lookup.led("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert end_offset(node.broker, TopicPartition("older", 0)) == 0
        assert [name.endswith("-stray") for name in folders(tmp_path)] == [True, True]


async def test_a_log_that_is_let_go_while_another_is_set_aside_holds_up_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "data" / "metadata.db"
    async with running(tmp_path) as node:
        await create(node, "older")
    shutil.copy(store, tmp_path / "backup.db")
    async with running(tmp_path) as node:
        await create(node, "orders")
    shutil.copy(tmp_path / "backup.db", store)
    set_aside, aside, let_go = LogRuntime.set_aside, list[TopicPartition](), list[TopicPartition]()

    async def and_let_the_others_go(runtime: LogRuntime, at: TopicPartition) -> str:
        """A topic that is created and deleted again meanwhile."""
        folder = await set_aside(runtime, at)
        aside.append(at)
        for other in [one for one in runtime.directory.logs if one.topic == at.topic]:
            await runtime.delete(other)
            let_go.append(other)
        return folder

    monkeypatch.setattr(LogRuntime, "set_aside", and_let_the_others_go)
    async with running(tmp_path) as node:
        assert end_offset(node.broker, TopicPartition("older", 0)) == 0

    assert sorted(aside + let_go) == [TopicPartition("orders", 0), AT]
    assert len(let_go) == 1
    assert [name.endswith("-stray") for name in folders(tmp_path)] == [True]


async def test_a_topic_that_is_made_again_while_a_broker_starts_is_hosted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log was checked while it still was the topic's, and is opened when it is not any more."""
    async with running(tmp_path) as node:
        before = await create(node, "orders")
        append(node.broker, AT)
    reconcile_topic, is_made_again = LocalReplicas.reconcile_topic, False

    async def made_again_meanwhile(local_replicas: LocalReplicas, name: str) -> None:
        nonlocal is_made_again
        if name == "orders" and not is_made_again:
            is_made_again = True
            await _commit_elsewhere(tmp_path, lambda image: decide_delete(image, "orders"))
            await _commit_elsewhere(tmp_path, _creation("orders"))
            topics = local_replicas._image.topics
            await eventually(lambda: "orders" in topics and topics["orders"].identity != before)
        await reconcile_topic(local_replicas, name)

    monkeypatch.setattr(LocalReplicas, "reconcile_topic", made_again_meanwhile)
    async with running(tmp_path) as node:
        assert is_made_again
        assert end_offset(node.broker, AT) == 0
        append(node.broker, AT)


@pytest.mark.parametrize("is_empty", [False, True])
async def test_data_without_its_store_is_not_started_upon(tmp_path: Path, is_empty: bool) -> None:
    async with running(tmp_path) as node:
        await create(node, "orders")
    store = tmp_path / "data" / "metadata.db"
    store.unlink()
    if is_empty:
        store.touch()

    for _ in range(2):
        with pytest.raises(StorageError, match=r"mv .*/data/broker-0 .*/data/old-broker-0, then start"):
            async with running(tmp_path):
                pass
    (tmp_path / "data" / "broker-0").rename(tmp_path / "data" / "old-broker-0")
    async with running(tmp_path) as node:
        assert node.directory.is_new


async def test_what_others_commit_is_carried_out(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        broker = node.broker
        await _commit_elsewhere(tmp_path, _creation("orders"))
        await eventually(lambda: isinstance(broker.lookup.led("orders", 1), Partition))
        append(broker, AT)

        await _commit_elsewhere(
            tmp_path,
            lambda image: decide_all_configs(image, "orders", {"max.message.bytes": "77"}, topic_settings.parse),
        )
        await eventually(lambda: broker.partitions[AT].log.settings.max_message_bytes == 77)

        await _commit_elsewhere(tmp_path, lambda image: decide_delete(image, "orders"))
        await eventually(lambda: not folders(tmp_path))
        assert broker.lookup.led("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_comes_back_with_fewer_partitions_is_taken_in(tmp_path: Path) -> None:
    """Found in simulation: a broker that held partition 1 of the old topic missed all later changes."""
    async with running(tmp_path) as node:
        broker = node.broker
        await create(node, "orders")
        image = broker.metadata.image
        smaller = values.Topic(name="orders", topic_id=str(TopicId(uuid.uuid4())), partitions=((0,),))
        known = image.topics["orders"]
        image.topics["orders"] = smaller
        broker.local_replicas.lead_or_follow_all()
        await eventually(lambda: AT not in broker.local_replicas.logs)
        image.topics["orders"] = known


async def test_changes_while_logs_are_made_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a look at the whole topic once: minutes of work after a topic of 5,000 partitions."""
    reconcile_topic, make, may_go_on, looks = (
        LocalReplicas.reconcile_topic,
        LogRuntime.create,
        asyncio.Event(),
        list[str](),
    )

    async def counted(local_replicas: LocalReplicas, name: str) -> None:
        looks.append(name)
        await reconcile_topic(local_replicas, name)

    async def made_late(*told: object) -> object:
        await may_go_on.wait()
        return await make(*told)  # type: ignore[arg-type]  # Whatever it is told.

    async with running(tmp_path) as node:
        monkeypatch.setattr(LocalReplicas, "reconcile_topic", counted)
        monkeypatch.setattr(LogRuntime, "create", made_late)
        local_replicas, making = node.broker.local_replicas, asyncio.create_task(create(node, "orders"))
        topics = local_replicas._image.topics
        await eventually(lambda: "orders" in topics and bool(looks))
        for _ in range(100):
            local_replicas.lead_or_follow(topics["orders"], 1)
            await asyncio.sleep(0)
        assert len(looks) <= 3, "the one who makes it, the one who hears of that, one for all that has changed since"
        may_go_on.set()
        await making
        await eventually(lambda: TopicPartition("orders", 1) in local_replicas.logs)
        await asyncio.sleep(0.1)
        before = len(looks)
        local_replicas.reconcile_soon("orders")  # And a later change is looked at again.
        await eventually(lambda: len(looks) == before + 1)


def _creation(name: str) -> Callable[[MetadataImage], Plan]:
    request = CreateTopic(name, TopicId(uuid.uuid4()), partitions=2)

    def decide(image: MetadataImage) -> Plan:
        # The node may be down at the time; another broker would have it among the registered ones.
        image.brokers[0] = values.BrokerRegistration(node_id=0, incarnation="", listeners=())
        return decide_create(image, request, topic_settings.parse)

    return decide


async def _commit_elsewhere(folder: Path, decide: Callable[[MetadataImage], Plan]) -> None:
    """What another process on the same store would do."""
    store = await SqliteStore.open(str(folder / "data" / "metadata.db"))
    try:
        plan = decide(MetadataImage.of(await store.list(keys.ROOT)))
        assert not isinstance(plan, Rejection), plan
        await store.commit(plan.compares, plan.operations)
    finally:
        await store.close()
