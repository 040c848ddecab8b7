"""Writes through a real Spark, read back from the broker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.spark.conftest import QUIET, Read

from qanat.testing import EmbeddedBroker
from qanat.wire.key_hash import partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = QUIET

BOTH = pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])


def save(frame: DataFrame, broker: EmbeddedBroker, **options: Any) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
    writer = frame.write.format("qanat").mode("append")
    for name, value in given.items():
        writer = writer.option(name, str(value))
    writer.save()


@BOTH
def test_rows_become_records_where_java_would_put_them(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, delivery: str
) -> None:
    frame = spark.range(0, 500, 1, 3).selectExpr("concat('key ', id) key", "cast(id as string) value")
    save(frame, broker, topic=topic, delivery=delivery, stagingLocation=tmp_path)
    stored = broker.records(topic)

    assert Counter(record.value for record in stored) == Counter(b"%d" % number for number in range(500))
    assert all(record.partition == partition_of(record.key or b"", 3) for record in stored)
    assert not list(tmp_path.rglob("*.batches"))


def test_a_batch_write_with_a_number_is_written_once(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    """As `foreachBatch` repeats it after a crash; to each topic of its own."""
    broker.create_topic(f"{topic}-other", partitions=1)
    for number, name in ((7, topic), (7, topic), (6, topic), (8, topic), (7, f"{topic}-other")):
        frame = spark.range(0, 10, 1, 2).selectExpr(f"cast({number} as string) value")
        save(
            frame,
            broker,
            topic=name,
            delivery="exactly-once",
            stagingLocation=tmp_path,
            txnAppId="copy",
            txnVersion=number,
            localIngest="false",
        )

    assert Counter(record.value for record in broker.records(topic)) == {b"7": 10, b"8": 10}
    assert len(broker.records(f"{topic}-other")) == 10
    assert not list(tmp_path.rglob("*.batches"))


@BOTH
def test_every_column_arrives(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, delivery: str
) -> None:
    frame = spark.sql(
        f"""select cast('k' as binary) key, cast('v' as binary) value, '{topic}' topic, 2 partition,
        timestamp_millis(1600000000123) timestamp,
        array(named_struct('key', 'h', 'value', cast('1' as binary))) headers
        union all select null, null, '{topic}', 1, null, null"""
    )
    save(frame, broker, includeHeaders="true", delivery=delivery, stagingLocation=tmp_path)
    second, first = broker.records(topic)

    assert (first.key, first.value, first.partition, first.timestamp) == (b"k", b"v", 2, 1600000000123)
    assert first.headers == (("h", b"1"),)
    assert (second.key, second.value, second.partition, second.headers) == (None, None, 1, ())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_rows_are_compressed_as_asked(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, read: Read, codec: str
) -> None:
    save(
        spark.range(100).selectExpr("cast(id as string) value"),
        broker,
        topic=topic,
        **{"kafka.compression.type": codec},
    )

    assert read(topic).count() == 100


@BOTH
def test_a_stream_is_copied_in_order(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, checkpoint: str, delivery: str
) -> None:
    target = topic + "-copy"
    broker.create_topic(target, partitions=3)
    save(spark.range(0, 3000).selectExpr("cast(id % 7 as string) key", "cast(id as string) value"), broker, topic=topic)
    for _ in range(2):
        query = (
            spark.readStream.format("qanat")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "1000")
            .load()
            .writeStream.format("qanat")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("topic", target)
            .option("delivery", delivery)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def content(name: str) -> list[tuple[int, bytes | None, int]]:
        return [(record.partition, record.value, record.timestamp) for record in broker.records(name)]

    assert content(target) == content(topic)


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (["id"], {"topic": "t"}, "column value is missing"),
        (["cast(id as string) value", "'k' keys"], {"topic": "t"}, "did you mean key"),
        (["cast(id as string) key"], {"topic": "t"}, "column value is missing"),
        (["id value"], {"topic": "t"}, "column value is bigint, but must be string or binary"),
        (["cast(id as string) value"], {}, "neither option topic nor column topic"),
        (["cast(id as string) value"], {"topic": "t", "delivery": "exactly-once"}, "needs option stagingLocation"),
        (["cast(id as string) value", "9 partition"], {"topic": "t"}, "a row names partition 9 of topic t"),
        (["cast(id as string) value", "cast(null as string) topic"], {}, "a row has no topic"),
    ],
)
def test_what_cannot_be_written_is_explained(
    spark: SparkSession, broker: EmbeddedBroker, columns: list[str], options: dict[str, str], reason: str
) -> None:
    if "t" not in broker.topics():
        broker.create_topic("t", partitions=3)
    with pytest.raises(PySparkException, match=reason):
        save(spark.range(3).selectExpr(*columns), broker, **options)


def test_a_topic_is_not_overwritten(spark: SparkSession, broker: EmbeddedBroker, topic: str) -> None:
    writer = spark.range(3).selectExpr("cast(id as string) value").write.format("qanat").mode("overwrite")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", topic).save()
