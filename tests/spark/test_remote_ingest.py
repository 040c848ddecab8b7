"""Rows of a transaction that tasks upload to the brokers, and that the driver only names."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from tests.app.node.test_between_brokers import brokers, until
from tests.spark.conftest import QUIET
from tests.spark.test_writing import save

from qanat.cluster.topics import CreateTopic
from qanat.connection.cluster import Cluster
from qanat.connection.faults import RefusedError
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.pipelines.spark_faults import machine_fault
from qanat.spark.sink import remote_ingest
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.exactly_once import commit_once
from qanat.spark.sink.outgoing_columns import EncodedBatch, Target
from qanat.spark.sink.remote_ingest import LostRowsError, RemoteFile, RemoteIngest, drop_files
from qanat.spark.sink.row_batches import Encoder
from qanat.spark.sink.row_staging import RowStaging
from qanat.spark.sink.staging import Staged, StageWriter, Staging
from qanat.testing import EmbeddedBroker
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

ROWS = 30_000
EXPECTED = [b"%06d" % number for number in range(ROWS)]


@pytest.fixture
def disk_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir=tmp_path / "data") as running:
        running.create_topic("wide", partitions=3)
        yield running


def encoded(count: int = ROWS, partitions: int = 3, batch_bytes: int = 100_000) -> Iterator[EncodedBatch]:
    encoder = Encoder(Target("wide", Codec.NONE, batch_bytes, has_headers=False), {"wide": partitions})
    for at in range(0, count, 10_000):
        values = pa.array([b"%06d" % number for number in range(at, min(at + 10_000, count))], pa.binary())
        yield from encoder.encode(pa.RecordBatch.from_arrays([values], ["value"]))


def uploaded(access: Access, elsewhere: Path, batches: Iterator[EncodedBatch]) -> Staged:
    """Rows staged as a task does it."""
    with Sender(access) as sender:

        async def staged() -> Staged:
            with StageWriter(Staging(str(elsewhere)), "batch-0") as writer:
                staging = RowStaging(writer, None, RemoteIngest(sender.cluster, "q-batch-0"))
                for one in batches:
                    await staging.add(one)
                return await staging.close()

        return sender.run(staged())


def commit(broker: EmbeddedBroker, staged: Staged, elsewhere: Path, number: int = 0) -> bool:
    access = Access(broker.bootstrap_servers)
    return commit_once(access, "id", "group", number, Staging(str(elsewhere)).take(staged))


def values(broker: EmbeddedBroker) -> list[bytes]:
    return sorted(one.value or b"" for one in broker.records("wide"))


def files_at(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "data").glob("broker-*/staging/**/*") if path.is_file()]


def test_rows_are_stored_by_the_broker_and_named_by_the_driver(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    assert (len(staged.remote_files), staged.rows, staged.entries, staged.inline) == (3, ROWS, (), b"")
    assert sorted(path.stat().st_size for path in files_at(tmp_path)) == sorted(one.size for one in staged.remote_files)
    assert values(disk_broker) == []
    assert not (tmp_path / "elsewhere").exists()

    assert commit(disk_broker, staged, tmp_path / "elsewhere")

    assert values(disk_broker) == EXPECTED
    assert files_at(tmp_path) == []
    for number in range(3):
        found = [one.value or b"" for one in disk_broker.records("wide") if one.partition == number]
        assert found == sorted(found)


def test_the_driver_sends_next_to_nothing(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    senders: list[Sender] = []
    enter = Sender.__enter__

    def entered(sender: Sender) -> Sender:
        senders.append(sender)
        return enter(sender)

    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    monkeypatch.setattr(Sender, "__enter__", entered)
    commit(disk_broker, staged, tmp_path / "elsewhere")

    (sender,) = senders
    assert 0 < sender.sent_bytes < 0.05 * sum(one.size for one in staged.remote_files)


def test_a_batch_larger_than_a_chunk_is_uploaded_in_pieces(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_ingest, "CHUNK_BYTES", 10_000)
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_batches_smaller_than_a_chunk_are_uploaded_together(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_ingest, "WAITING_BYTES_MAX", 150_000)
    access = Access(disk_broker.bootstrap_servers)
    staged = uploaded(access, tmp_path / "elsewhere", encoded(batch_bytes=4_000))
    assert len(staged.remote_files) == 3
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_files_end_where_they_are_full(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_ingest, "FILE_BYTES_MAX", 120_000)
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    assert len(staged.remote_files) > 3
    assert max(one.size for one in staged.remote_files) <= 120_000
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_the_rows_of_a_small_task_are_in_its_message(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded(1000))
    assert (staged.remote_files, staged.rows) == ((), 1000)
    assert staged.inline
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED[:1000]


def test_a_broker_that_takes_no_uploads_gets_rows_from_the_driver(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Kafka and older versions of Qanat do."""
    monkeypatch.setattr("qanat.api.cluster.api_versions.STAGING", "something.else")
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    assert (staged.remote_files, staged.rows) == ((), ROWS)
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_an_answer_that_is_lost_costs_nothing(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    disk_broker.lose_answer("Produce", times=2)
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    disk_broker.lose_answer("Produce", times=2)
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_a_broker_that_restarts_in_between_has_the_rows(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    disk_broker.restart()
    commit(disk_broker, staged, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_a_batch_that_is_written_already_leaves_nothing_behind(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    access, elsewhere = Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere"
    assert commit(disk_broker, uploaded(access, elsewhere, encoded()), elsewhere, 7)
    again = uploaded(access, elsewhere, encoded())
    assert not commit(disk_broker, again, elsewhere, 7)
    assert len(files_at(tmp_path)) == 3

    with Sender(access) as sender:
        sender.run(drop_files(sender.cluster, again.remote_files))

    assert files_at(tmp_path) == []
    assert values(disk_broker) == EXPECTED


def test_a_task_that_fails_deletes_what_it_uploaded(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with Sender(Access(disk_broker.bootstrap_servers)) as sender:

        async def fail() -> None:
            with StageWriter(Staging(str(tmp_path)), "batch-0") as writer:
                staging = RowStaging(writer, None, RemoteIngest(sender.cluster, "q-batch-0"))
                for one in encoded():
                    await staging.add(one)
                await staging.drop()

        sender.run(fail())
    assert files_at(tmp_path) == []


def test_rows_that_expired_are_one_sentence(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    for path in files_at(tmp_path):
        path.unlink()
    with pytest.raises(LostRowsError, match=r"rows of this batch for wide-\d are not at its leader"):
        commit(disk_broker, staged, tmp_path / "elsewhere")
    committed = uploaded(Access(disk_broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
    assert commit(disk_broker, committed, tmp_path / "elsewhere")
    assert values(disk_broker) == EXPECTED


def test_a_broker_that_has_no_room_says_so(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "data", settings={"log.staging.bytes.max": 200_000}) as broker:
        broker.create_topic("wide", partitions=3)
        with pytest.raises(RefusedError, match=r"log\.staging\.bytes\.max is 200000") as fault:
            uploaded(Access(broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
        assert fault.value.code == ErrorCode.POLICY_VIOLATION


def test_records_that_the_topic_refuses_are_named(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("wide", partitions=3, configs={"cleanup.policy": "compact"})
        staged = uploaded(Access(broker.bootstrap_servers), tmp_path / "elsewhere", encoded())
        with pytest.raises(QanatError, match="key"):
            commit(broker, staged, tmp_path / "elsewhere")


async def _move(cluster: Cluster, topic: str, node_id: int) -> None:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000, topics=[ReassignableTopic(topic, [ReassignablePartition(0, [node_id])])]
    )
    response = await cluster.call_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    assert response.error_code == 0


async def test_a_leader_that_moves_before_the_commit_fails_the_batch_and_a_repeated_one_is_whole(
    tmp_path: Path,
) -> None:
    async with brokers({}, {}) as nodes:
        changes = nodes[0].broker.metadata_changes
        await changes.create_topic(CreateTopic("wide", changes.new_topic_id(), partitions=1, replication_factor=1))
        access = Access(f"127.0.0.1:{nodes[0].listener.port}")
        image = nodes[0].broker.metadata.image
        old = image.state(image.topics["wide"], 0).leader
        elsewhere = tmp_path / "elsewhere"
        staged = await asyncio.to_thread(uploaded, access, elsewhere, encoded(partitions=1))
        assert len(nodes[old].broker.runtime.staged) == 1

        async with Cluster([("127.0.0.1", nodes[0].listener.port)]) as cluster:
            await _move(cluster, "wide", 1 - old)
        await until(lambda: ("wide", 0) in nodes[1 - old].broker.local_replicas.writable)

        with pytest.raises(LostRowsError, match="it moved to another broker after they were uploaded") as fault:
            await asyncio.to_thread(commit_once, access, "id", "group", 0, Staging(str(elsewhere)).take(staged))
        assert machine_fault(str(fault.value)) is not None, "a pipeline goes on by itself"
        again = await asyncio.to_thread(uploaded, access, elsewhere, encoded(partitions=1))
        assert await asyncio.to_thread(commit_once, access, "id", "group", 0, Staging(str(elsewhere)).take(again))
        assert nodes[1 - old].broker.runtime.directory.logs[TopicPartition("wide", 0)].end_offset >= ROWS


async def test_a_leader_that_moves_during_an_upload_fails_the_task(tmp_path: Path) -> None:
    async with brokers({}, {}) as nodes:
        changes = nodes[0].broker.metadata_changes
        await changes.create_topic(CreateTopic("wide", changes.new_topic_id(), partitions=1, replication_factor=1))
        image = nodes[0].broker.metadata.image
        old = image.state(image.topics["wide"], 0).leader
        async with Cluster([("127.0.0.1", nodes[0].listener.port)]) as cluster:
            ingest = RemoteIngest(cluster, "q-batch-0")
            batches = list(encoded(partitions=1))
            assert await ingest.take(batches[0])
            await ingest._launch(ingest._uploads[batches[0].at])
            await ingest._arrived(batches[0].at)
            await _move(cluster, "wide", 1 - old)
            await until(lambda: ("wide", 0) in nodes[1 - old].broker.local_replicas.writable)
            assert await ingest.take(batches[1])
            with pytest.raises(LostRowsError, match="moved to another broker while rows were uploaded") as fault:
                await ingest.close()
            assert machine_fault(str(fault.value)) is not None, "a pipeline goes on by itself"
            await ingest.drop()


def test_a_file_is_named_by_what_it_holds() -> None:
    (one,) = RemoteFile("wide", 2, "folder/" + "0" * 32, 7, 1000).batches()
    assert (one.at, one.rows, one.may_be_unknown) == (TopicPartition("wide", 2), 7, False)


def _produced(broker: EmbeddedBroker) -> tuple[int, int]:
    """Bytes of Produce requests that a broker has received, and those of them that were uploads."""
    counters = broker.node.listener.dispatcher.counters
    return counters.by_api[ApiKey.PRODUCE].request_bytes, broker.node.broker.runtime.staged.uploaded_bytes


@pytest.mark.parametrize("options", [{}, {"kafka.compression.type": "zstd"}])
def test_spark_writes_exactly_once_without_rows_at_the_driver(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("wide", partitions=3)
        frame = spark.range(0, 200_000, 1, 3).selectExpr("concat(cast(id as string), '-', uuid()) value")
        where: dict[str, Any] = {"delivery": "exactly-once", "stagingLocation": tmp_path / "staging"}
        for version in (1, 1):
            once = {"txnAppId": "job", "txnVersion": version}
            save(frame, broker, topic="wide", localIngest="false", **where, **once, **options)

        received, stored = _produced(broker)
        assert stored > 2_000_000
        assert received - stored < 0.05 * stored / 2, "the driver names the files"
        found = Counter(int((one.value or b"").partition(b"-")[0]) for one in broker.records("wide"))
        assert found == Counter(range(200_000))
        assert files_at(tmp_path) == []
        assert not (tmp_path / "staging").exists()


def test_spark_sends_rows_through_the_driver_if_it_is_told_so(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("wide", partitions=3)
        frame = spark.range(0, 200_000, 1, 3).selectExpr("cast(id as string) value")
        options = {"delivery": "exactly-once", "stagingLocation": tmp_path / "staging"}
        save(frame, broker, topic="wide", localIngest="false", remoteIngest="false", **options)
        assert _produced(broker)[1] == 0
        assert len(broker.records("wide")) == 200_000
