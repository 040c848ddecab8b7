"""Batch and streaming reads through a real Spark, of records that a real producer wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.spark.conftest import QUIET, Read
from tests.testing.clients import SECONDS, produce, producer

from qanat.model.ids import TopicPartition
from qanat.spark.offsets import OffsetRange
from qanat.spark.options.options import source_options
from qanat.spark.reads.data_loss import DataLossError
from qanat.spark.reads.stream_reader import StreamReader
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = QUIET

OLD_MS = 1_600_000_000_000


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def test_a_row_has_every_column_of_sparks_connector(broker: EmbeddedBroker, topic: str, read: Read) -> None:
    sender = producer(broker)
    sender.produce(topic, b"v", b"k", partition=1, timestamp=OLD_MS + 7, headers=[("h", b"1"), ("h", None)])
    sender.produce(topic, None, None, partition=2, timestamp=OLD_MS)
    assert sender.flush(SECONDS) == 0
    frame = read(topic, includeHeaders="true")
    first, second = frame.orderBy("partition").collect()

    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k",
        b"v",
        topic,
        1,
        0,
    )
    assert (first.timestamp.timestamp(), first.timestampType) == ((OLD_MS + 7) / 1000, 0)
    assert [(one.key, one.value) for one in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)
    assert "headers" not in read(topic).columns


def test_offsets_and_times_bound_a_read_and_filters_narrow_it(broker: EmbeddedBroker, topic: str, read: Read) -> None:
    for number in range(10):
        produce(broker, topic, b"%d" % number, timestamp=OLD_MS + 1000 * number)
    produce(broker, topic, b"other", partition=1, timestamp=OLD_MS)
    from_three = json.dumps({topic: {"0": 3, "1": -2, "2": -2}})
    until_five = json.dumps({topic: {"0": 5, "1": 0, "2": -1}})

    assert values(read(topic, startingOffsets=from_three, endingOffsets=until_five)) == [b"3", b"4"]
    since = json.dumps({topic: {"0": OLD_MS + 8000, "1": OLD_MS, "2": 0}})
    by_time = read(topic, startingOffsetsByTimestamp=since, startingOffsetsByTimestampStrategy="latest")
    assert values(by_time) == [b"8", b"9", b"other"]
    assert values(read(topic, startingTimestamp=OLD_MS, endingTimestamp=OLD_MS + 2000).where("partition = 0")) == [
        b"0",
        b"1",
    ]
    assert values(read(topic).where("partition = 0 and offset >= 4 and offset < 6")) == [b"4", b"5"]
    assert values(read(topic).where(f"timestamp >= timestamp_millis({OLD_MS + 9000})")) == [b"9"]
    assert read(topic).where("partition = 0 and offset < 6").rdd.getNumPartitions() == 1


def test_min_partitions_split_a_topic_without_losing_or_doubling(
    broker: EmbeddedBroker, topic: str, read: Read
) -> None:
    produce(broker, topic, *(b"%03d" % number for number in range(100)), **{"batch.num.messages": 7})
    frame = read(topic, minPartitions=8)

    assert frame.rdd.getNumPartitions() == 8
    assert values(frame) == [b"%03d" % number for number in range(100)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(broker: EmbeddedBroker, topic: str, read: Read, codec: str) -> None:
    options: dict[str, Any] = {"compression.type": codec}
    produce(broker, topic, *(b"%s %03d" % (codec.encode() * 20, number) for number in range(50)), **options)

    assert len(set(values(read(topic)))) == 50


def start(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, target: Path, checkpoint: str, **options: Any
) -> Any:
    """A query that copies values into a folder of JSON."""
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
    reader = spark.readStream.format("qanat")
    for name, value in given.items():
        reader = reader.option(name, str(value))
    return (
        reader.load()
        .selectExpr("cast(value as string) value", "offset", "partition")
        .writeStream.format("json")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(str(target))
    )


def finish(query: Any) -> list[Any]:
    """Wait for its end; the micro-batches that had rows."""
    assert query.awaitTermination(120)
    return [one for one in query.recentProgress if one.numInputRows]


def copied(target: Path) -> list[str]:
    lines = [line for file in target.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


def test_a_stream_goes_on_from_its_checkpoint_in_limited_steps(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4, "kafka.group.id": topic}
    produce(broker, topic, *(b"%d" % number for number in range(9)))
    first = finish(start(spark, broker, topic, tmp_path / "out", checkpoint, **options))
    produce(broker, topic, b"9", partition=2)
    second = finish(start(spark, broker, topic, tmp_path / "out", checkpoint, **options))

    assert [one.numInputRows for one in first] == [4, 4, 1]
    assert [one.numInputRows for one in second] == [1]
    assert json.loads(second[0].sources[0].endOffset) == {topic: {"0": 9, "1": 0, "2": 1}}
    assert copied(tmp_path / "out") == [str(number) for number in range(10)]


def test_progress_is_a_groups_and_the_next_query_may_start_there(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    produce(broker, topic, b"old")
    finish(
        start(spark, broker, topic, tmp_path / "a", checkpoint, startingOffsets="earliest", **{"kafka.group.id": topic})
    )
    produce(broker, topic, b"new")
    again = {"startingOffsets": "group", "kafka.group.id": topic}
    finish(start(spark, broker, topic, tmp_path / "b", checkpoint + "2", **again))

    assert copied(tmp_path / "a") == ["old"]
    assert copied(tmp_path / "b") == ["new"]


def test_bytes_limit_a_micro_batch(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    produce(broker, topic, *(b"x" * 1000 for _ in range(100)), **{"batch.num.messages": 1})
    options = {"startingOffsets": "earliest", "maxBytesPerTrigger": "25k"}
    steps = finish(start(spark, broker, topic, tmp_path / "out", checkpoint, **options))

    assert len(steps) in (4, 5)
    assert sum(one.numInputRows for one in steps) == 100


def test_lost_records_are_reported_exactly_or_skipped(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, checkpoint: str, read: Read
) -> None:
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    produce(broker, topic, *(b"%d" % number for number in range(6)))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([Place(topic, 0, 4)]).values():
        done.result(SECONDS)
    from_start = json.dumps({topic: {"0": 0, "1": 0, "2": 0}})

    with pytest.raises(PySparkException, match=f"4 offsets are no longer there: {topic}-0 offsets 0 to 3"):
        read(topic, startingOffsets=from_start).collect()
    assert values(read(topic, startingOffsets=from_start, failOnDataLoss="false")) == [b"4", b"5"]
    query = start(spark, broker, topic, tmp_path / "out", checkpoint, startingOffsets=from_start)
    with pytest.raises(PySparkException, match="4 offsets are no longer there"):
        query.awaitTermination(120)


def test_a_recreated_topic_is_reported_or_read_from_its_beginning(broker: EmbeddedBroker, topic: str) -> None:
    produce(broker, topic, b"new")
    old = {topic: {"0": 5, "1": 0, "2": 0}}
    ends = {topic: {"0": 1, "1": 0, "2": 0}}
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    strict = StreamReader(source_options(given, is_stream=True), pa.schema([]))
    easy = StreamReader(source_options({**given, "failOnDataLoss": "false"}, is_stream=True), pa.schema([]))
    for reader in (strict, easy):
        reader.prepareForTriggerAvailableNow()

    with pytest.raises(DataLossError, match=f"{topic}-0 ends at offset 1, and the query has read up to 5"):
        strict.latestOffset(old, ReadAllAvailable())
    assert easy.latestOffset(old, ReadAllAvailable()) == ends
    assert [one.wanted for one in easy.partitions(old, ends)] == [OffsetRange(TopicPartition(topic, 0), 0, 1)]  # type: ignore[attr-defined]
    for reader in (strict, easy):
        reader.stop()


def test_a_checkpoint_of_another_topic_is_refused(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    broker.create_topic(topic + "-2")
    produce(broker, topic, b"a")
    finish(start(spark, broker, topic, tmp_path / "out", checkpoint, startingOffsets="earliest"))
    query = start(spark, broker, topic + "-2", tmp_path / "out", checkpoint, startingOffsets="earliest")

    with pytest.raises(PySparkException, match="give it a checkpointLocation of its own"):
        query.awaitTermination(120)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic no-such-topic"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "no broker can be reached"),
        ({"startingOffsets": '{"%s": {"0": 0}}'}, "must name every partition"),
    ],
)
def test_a_mistake_is_explained(topic: str, read: Read, options: dict[str, str], reason: str) -> None:
    given = {name: value.replace("%s", topic) for name, value in options.items()}
    with pytest.raises(PySparkException, match=reason):
        read(topic, **given).collect()
