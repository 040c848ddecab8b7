"""Values with a schema through a real Spark: typed columns, and poison records."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from tests.spark.conftest import QUIET, Read
from tests.spark.formats.messages import MESSAGE, descriptor_set, message_class

from qanat.model.dead_letters import parse_letter
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}


def avro(**row: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(AVRO), row)
    return sink.getvalue()


def fill(broker: EmbeddedBroker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=1)
    assert producer.flush(60) == 0


def test_each_format_gives_typed_columns(broker: EmbeddedBroker, read: Read, topic: str, tmp_path: Path) -> None:
    descriptor = tmp_path / "shop.desc"
    descriptor.write_bytes(descriptor_set())
    cases: dict[str, tuple[bytes, dict[str, Any]]] = {
        "json": (b'{"id": 1, "name": "n"}', {"valueSchema": "id bigint, name string COMMENT 'x'"}),
        "csv": (b"1;n", {"valueSchema": "id long, name string", "csvDelimiter": ";"}),
        "avro": (b"\0\0\0\0\1" + avro(id=1, name="n"), {"valueSchema": json.dumps(AVRO), "valueFraming": "confluent"}),
        "protobuf": (
            message_class()(id=1, name="n").SerializeToString(),
            {"protobufDescriptorFile": descriptor, "protobufMessage": MESSAGE},
        ),
    }
    for position, (name, (value, options)) in enumerate(cases.items()):
        fill(broker, topic, value)
        start = json.dumps({topic: {"0": 0, "1": position, "2": 0}})
        frame = read(topic, valueFormat=name, startingOffsets=start, includeHeaders="true", **options)

        assert dict(frame.select("value.id", "value.name").dtypes) == {"id": "bigint", "name": "string"}
        assert [(*row,) for row in frame.select("value.id", "value.name", "offset", "malformed").collect()] == [
            (1, "n", position, None)
        ]
    (row,) = read(topic, valueFormat="text", endingOffsets=json.dumps({topic: {"0": -1, "1": 1, "2": -1}})).collect()
    assert row.value == '{"id": 1, "name": "n"}'


def test_poison_is_marked_dropped_or_an_error(broker: EmbeddedBroker, read: Read, topic: str) -> None:
    fill(broker, topic, b'{"id":1}', b'{"id":"x"}', b"\xff\0", b'{"id":4}')
    given = {"valueFormat": "json", "valueSchema": "id int"}
    kept = read(topic, **given).orderBy("offset").collect()

    assert [row.value and row.value.id for row in kept] == [1, None, None, 4]
    assert [row.malformed and bytes(row.malformed.value) for row in kept] == [None, b'{"id":"x"}', b"\xff\0", None]
    assert kept[1].malformed.reason == 'field id: "x" is not of type int'
    left = read(topic, **given, mode="DROPMALFORMED")
    assert ("malformed" in left.columns, sorted(row.value.id for row in left.collect())) == (False, [1, 4])
    with pytest.raises(PySparkException, match=r"(?i)innt"):
        read(topic, valueFormat="json", valueSchema="id innt").collect()
    with pytest.raises(PySparkException, match=rf"offset 1 of {topic} partition 1 is not valid json: field id"):
        read(topic, **given, mode="failfast").collect()


def test_a_stream_sends_poison_to_a_topic_of_dead_letters(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, checkpoint: str
) -> None:
    fill(broker, topic, b'{"id":1}', b"poison", b'{"id":3}')
    broker.create_topic(f"{topic}-dead")
    stream = spark.readStream.format("qanat").options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest", "subscribe": topic},
        valueFormat="json",
        valueSchema="id int",
    )
    letters = (
        stream.load()
        .where("malformed is not null")
        .selectExpr(
            "key",
            "malformed.value value",
            "array(named_struct('key', '__dlq.errors.topic', 'value', cast(topic as binary)),"
            " named_struct('key', '__dlq.errors.partition', 'value', cast(string(partition) as binary)),"
            " named_struct('key', '__dlq.errors.offset', 'value', cast(string(offset) as binary)),"
            " named_struct('key', '__dlq.errors.message', 'value', cast(malformed.reason as binary))) headers",
        )
    )
    writing = letters.writeStream.format("qanat").options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers, "checkpointLocation": checkpoint},
        topic=f"{topic}-dead",
        delivery="exactly-once",
        includeHeaders="true",
    )
    writing.trigger(availableNow=True).start().awaitTermination()
    (letter,) = broker.records(f"{topic}-dead")

    assert letter.value == b"poison"
    parsed = parse_letter(letter.headers)
    assert parsed is not None
    assert (parsed.origin.topic, parsed.origin.offset) == (topic, 1)
    assert "it is not JSON" in parsed.origin.message
