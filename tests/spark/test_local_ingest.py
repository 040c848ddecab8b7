"""Rows staged in files of a broker on this machine, which ingests them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from tests.spark.conftest import QUIET
from tests.spark.test_writing import BOTH, save

from qanat.log.runtime.staged_files import StagedFiles
from qanat.model.errors import CorruptBatchError, QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.host_identity import host_identity
from qanat.spark.options.options import Access
from qanat.spark.sink import local_brokers, local_ingest
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.exactly_once import commit_once
from qanat.spark.sink.local_brokers import LocalBrokers, LocalStaging
from qanat.spark.sink.local_ingest import LocalIngestFile, LocalIngestFiles
from qanat.spark.sink.outgoing_columns import EncodedBatch, Target
from qanat.spark.sink.row_batches import Encoder
from qanat.spark.sink.row_staging import RowStaging
from qanat.spark.sink.staging import Staged, StageWriter, Staging
from qanat.spark.sink.writers import stream_writer
from qanat.testing import EmbeddedBroker
from qanat.wire.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = QUIET


@pytest.fixture
def disk_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir=tmp_path / "data") as running:
        running.create_topic("wide", partitions=3)
        yield running


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are ingested as segments, however small they are."""
    monkeypatch.setattr(StagedFiles, "ingest_bytes_min", 0)


def place_of(broker: EmbeddedBroker, tmp_path: Path) -> Path:
    (found,) = (tmp_path / "data").glob("broker-*")
    return found / "staging"


def encoded(count: int = 30_000, partitions: int = 3) -> Iterator[EncodedBatch]:
    encoder = Encoder(Target("wide", Codec.NONE, 100_000, has_headers=False), {"wide": partitions})
    for at in range(0, count, 10_000):
        values = pa.array([b"%06d" % number for number in range(at, at + 10_000)], pa.binary())
        yield from encoder.encode(pa.RecordBatch.from_arrays([values], ["value"]))


def staged_near(broker: EmbeddedBroker, tmp_path: Path, folder: str = "q-batch-0") -> Staged:
    """Rows staged as a task does it."""
    with Sender(Access(broker.bootstrap_servers)) as sender:
        files = LocalIngestFiles(LocalBrokers(sender.cluster), folder, 0)

        async def staged() -> Staged:
            with StageWriter(Staging(str(tmp_path / "elsewhere")), "batch-0") as writer:
                staging = RowStaging(writer, files, None)
                for one in encoded():
                    await staging.add(one)
                return await staging.close()

        return sender.run(staged())


def values(broker: EmbeddedBroker, topic: str = "wide") -> list[bytes]:
    return [record.value or b"" for record in broker.records(topic)]


EXPECTED = [b"%06d" % number for number in range(30_000)]


@pytest.mark.usefixtures("few")
def test_rows_are_staged_at_the_broker_and_ingested(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = staged_near(disk_broker, tmp_path)
    staging = Staging(str(tmp_path / "elsewhere"))
    place = place_of(disk_broker, tmp_path)
    assert (len(staged.local_files), staged.rows, staged.entries) == (3, 30_000, ())
    assert {file.path.parent for file in staged.local_files} == {place / "q-batch-0"}
    assert values(disk_broker) == []

    commit_once(Access(disk_broker.bootstrap_servers), "id", "group", 0, staging.take(staged))

    assert sorted(values(disk_broker)) == EXPECTED
    assert not list((place / "q-batch-0").iterdir())
    staging.drop("batch-0", [staged])
    assert not list(place.iterdir())
    for number in range(3):
        found = [one.value or b"" for one in disk_broker.records("wide") if one.partition == number]
        assert found == sorted(found)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "configs", [{"compression.type": "lz4"}, {"segment.bytes": 20_000, "max.message.bytes": 15_000}]
)
def test_files_that_the_broker_cannot_ingest_are_appended(
    disk_broker: EmbeddedBroker, tmp_path: Path, configs: dict[str, object]
) -> None:
    disk_broker.create_topic("picky", partitions=1, configs=configs)
    disk_broker.create_topic("plain", partitions=1)
    encoder = Encoder(Target(None, Codec.NONE, 10_000, has_headers=False), {"picky": 1, "plain": 1})
    rows = pa.RecordBatch.from_pydict({"value": EXPECTED, "topic": ["picky", "plain"] * 15_000})
    with Sender(Access(disk_broker.bootstrap_servers)) as sender:
        sender.init_idempotent()
        files = LocalIngestFiles(LocalBrokers(sender.cluster), "task", 0)
        assert sender.send_rows([rows], encoder, files) == 30_000

    assert values(disk_broker, "picky") == EXPECTED[::2]
    assert values(disk_broker, "plain") == EXPECTED[1::2]


@pytest.mark.usefixtures("few")
def test_a_file_that_was_changed_is_refused_and_nothing_is_seen(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = staged_near(disk_broker, tmp_path)
    spoiled = staged.local_files[1].path
    whole = spoiled.read_bytes()
    spoiled.write_bytes(whole[:-1] + b"?")

    with pytest.raises(CorruptBatchError, match="staged rows were changed since they were encoded"):
        commit_once(
            Access(disk_broker.bootstrap_servers), "id", "group", 0, Staging(str(tmp_path / "elsewhere")).take(staged)
        )

    from tests.spark.test_batch_sender import _committed

    assert _committed(disk_broker.bootstrap_servers, "wide") == 0


def test_small_files_are_appended_by_the_broker(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = staged_near(disk_broker, tmp_path)
    assert len(staged.local_files) == 3

    commit_once(
        Access(disk_broker.bootstrap_servers), "id", "group", 0, Staging(str(tmp_path / "elsewhere")).take(staged)
    )

    found = disk_broker.records("wide")
    for number in range(3):
        of_partition = [one.value or b"" for one in found if one.partition == number]
        assert of_partition == sorted(of_partition)
    assert sorted(one.value or b"" for one in found) == EXPECTED
    assert not any(file.path.exists() for file in staged.local_files)


def test_an_older_broker_gets_the_batches_of_small_files(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = staged_near(disk_broker, tmp_path)
    files = tuple(replace(file, takes_small=False) for file in staged.local_files)
    assert [len(list(file.batches())) > 1 for file in files] == [True] * 3

    staged = staged_near(disk_broker, tmp_path, "q-batch-1")
    older = replace(staged, local_files=tuple(replace(file, takes_small=False) for file in staged.local_files))
    commit_once(
        Access(disk_broker.bootstrap_servers), "id", "group", 0, Staging(str(tmp_path / "elsewhere")).take(older)
    )

    assert sorted(values(disk_broker)) == EXPECTED


@pytest.mark.usefixtures("few")
def test_a_file_that_is_gone_is_one_sentence(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    staged = staged_near(disk_broker, tmp_path)
    staged.local_files[0].path.unlink()

    with pytest.raises(QanatError, match=r"staged rows in .* cannot be read any more"):
        commit_once(
            Access(disk_broker.bootstrap_servers), "id", "group", 0, Staging(str(tmp_path / "elsewhere")).take(staged)
        )


def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(QanatError, match=r"rows cannot be staged beside the broker, in .*file"):
        local_ingest._Growing(LocalStaging(str(tmp_path / "file"), True), "a/b")


def test_files_end_where_they_are_full(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: None
) -> None:
    monkeypatch.setattr(local_ingest, "FILE_BYTES_MAX", 120_000)
    staged = staged_near(disk_broker, tmp_path)
    assert len(staged.local_files) > 3
    assert all(file.path.stat().st_size <= 120_000 for file in staged.local_files)
    commit_once(
        Access(disk_broker.bootstrap_servers), "id", "group", 0, Staging(str(tmp_path / "elsewhere")).take(staged)
    )
    assert sorted(values(disk_broker)) == EXPECTED


def location(broker: EmbeddedBroker) -> str | None:
    with Sender(Access(broker.bootstrap_servers)) as sender:
        found = sender.run(LocalBrokers(sender.cluster).location(TopicPartition("wide", 0)))
        assert found is None or found.takes_small
        return None if found is None else found.path


def test_a_broker_is_local_only_if_every_check_passes(
    disk_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(disk_broker, tmp_path)
    assert location(disk_broker) == str(place)
    identity = place.parent / "meta.properties"
    said = identity.read_text()
    for twisted in ("", said.replace("cluster.id=", "cluster.id=x"), said.replace("qanat.format", "kafka.format")):
        identity.write_text(twisted)
        assert location(disk_broker) is None
    identity.write_text(said)
    monkeypatch.setattr(local_brokers, "_is_here", lambda host: False)
    assert location(disk_broker) is None
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert location(disk_broker) is None


def test_a_broker_in_memory_is_nowhere() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("wide")
        assert location(broker) is None


def test_addresses_of_this_machine_are_known() -> None:
    assert local_brokers._is_here("localhost")
    assert local_brokers._is_here("127.0.0.1")
    assert not local_brokers._is_here("192.0.2.1")
    assert not local_brokers._is_here("no.such.host.invalid")


def test_old_files_of_dead_drivers_are_deleted(disk_broker: EmbeddedBroker, tmp_path: Path) -> None:
    place = place_of(disk_broker, tmp_path)
    for name, age_days in (("old", 8), ("young", 6)):
        (place / name).mkdir(parents=True)
        (place / name / "file").touch()
        moment = (place / name).stat().st_mtime - age_days * 24 * 3600
        os.utime(place / name, (moment, moment))

    assert location(disk_broker) == str(place)

    assert [one.name for one in place.iterdir()] == ["young"]


def test_a_file_knows_its_content() -> None:
    entries = (local_ingest.Entry("wide", 2, 10, 3), local_ingest.Entry("wide", 2, 20, 4))
    assert LocalIngestFile("/place", "folder/name", entries).rows == 7


@BOTH
def test_spark_writes_large_tasks_so(spark: SparkSession, tmp_path: Path, delivery: str) -> None:
    """Two tasks with more for each partition than is sent."""
    rows = 14_400
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("wide", partitions=2)
        frame = spark.range(0, rows, 1, 2).selectExpr("concat(cast(id as string), repeat('x', 10000)) value")
        save(frame, broker, topic="wide", delivery=delivery, stagingLocation=tmp_path / "staging")
        segments = [
            one.stat().st_size for one in place_of(broker, tmp_path).parent.glob("wide-*/*.log") if one.stat().st_size
        ]
        found = Counter((one.value or b"").partition(b"x")[0] for one in broker.records("wide"))

        assert len(segments) >= 4, "each task's part of each partition is a file"
        assert found == Counter(b"%d" % number for number in range(rows))
        assert not list(place_of(broker, tmp_path).iterdir())


def test_without_acknowledgements_everything_is_sent(disk_broker: EmbeddedBroker) -> None:
    files = LocalIngestFiles(None, "task")
    asyncio.run(files.find(TopicPartition("wide", 0)))
    assert not any(files.take(one) for one in encoded(partitions=1))
    assert files.close() == ()


def test_an_older_broker_gets_the_batches_instead_of_a_file_name(
    disk_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, few: None
) -> None:
    monkeypatch.setattr("qanat.api.records.produce.is_staged", lambda batch: False)
    monkeypatch.setattr(local_ingest, "INGEST_BYTES_MIN", 0)
    monkeypatch.setattr(local_brokers, "FEATURE", "unknown")
    with Sender(Access(disk_broker.bootstrap_servers)) as sender:
        sender.init_idempotent()
        encoder = Encoder(Target("wide", Codec.NONE, 100_000, has_headers=False), {"wide": 3})
        rows = pa.RecordBatch.from_arrays([pa.array(EXPECTED, pa.binary())], ["value"])
        assert sender.send_rows([rows], encoder, LocalIngestFiles(LocalBrokers(sender.cluster), "task", 0)) == 30_000

    assert sorted(values(disk_broker)) == EXPECTED


def test_tasks_away_from_their_driver_stage_where_it_can_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver may have to send it."""
    writer = stream_writer(
        {"kafka.bootstrap.servers": "localhost:1", "topic": "wide", "checkpointLocation": str(tmp_path)},
        spark.range(1).selectExpr("cast(id as string) value").schema,
    )
    assert writer._driver == host_identity()
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert writer._driver != host_identity()


def test_a_failed_task_deletes_its_own_files_only(tmp_path: Path) -> None:
    class Here:
        async def location(self, at: TopicPartition) -> LocalStaging:
            return LocalStaging(str(tmp_path), True)

    kept, dropped = LocalIngestFiles(Here(), "folder"), LocalIngestFiles(Here(), "folder")  # type: ignore[arg-type]
    for files in (kept, dropped):
        for one in encoded(10_000):
            asyncio.run(files.find(one.at))
            files._seen_bytes = local_ingest.SENT_BYTES_MAX
            assert files.take(one)
    dropped.drop()

    assert {file.path for file in kept.close()} == set((tmp_path / "folder").iterdir())
    kept.drop()
    assert not list(tmp_path.iterdir())


def test_every_batch_of_a_stream_that_writes_by_itself_is_written(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    """Inside `foreachBatch` a write has the stream's properties, but is a write of its own."""
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.txt").write_text(f"row {number}\n")

    def write(frame: DataFrame, _: int) -> None:
        save(frame, broker, topic=topic, delivery="exactly-once", stagingLocation=tmp_path / "staging")

    reader = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    query = reader.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(120)

    assert sorted(one.value or b"" for one in broker.records(topic)) == [b"row 0", b"row 1", b"row 2"]
    assert not list((tmp_path / "staging").rglob("*")) if (tmp_path / "staging").exists() else True
