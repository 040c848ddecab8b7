"""Sinks of pipelines through a real Spark: typed values, updates of compacted topics, functions, any format."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from tests.spark.conftest import QUIET

from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.testing import EmbeddedBroker
from qanat.testing.pipelines import PipelineTests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
TYPED = """\
name: typed
sources: {orders: {topic: orders, schema: "id bigint, tags map<string,int>, at timestamp"}}
steps:
  flat: {sql: "select cast(record.id as string) as key, record.id, record.tags, record.at from orders"}
  whole: {sql: "select key, if(record._broken is null, named_struct('id', record.id), null) as value from orders"}
  named: {sql: "select key, concat('order ', record.id) as text from orders"}
  pair: {sql: "select record.id, record.at from orders"}
  bare: {sql: "select key from orders"}
sinks:
  json: {from: flat, topic: out, valueFormat: json}
  tombstones: {from: whole, topic: out, valueFormat: json}
  csv: {from: pair, topic: out, valueFormat: csv}
  text: {from: named, topic: out, valueFormat: text}
  avro: {from: flat, topic: out, valueFormat: avro, valueSchema: 'AVRO'}
  two: {from: pair, topic: out, valueFormat: text}
  none: {from: bare, topic: out, valueFormat: json}
"""


def test_values_leave_in_the_format_of_the_sink(qanat_pipeline: PipelineTests, tmp_path: Path) -> None:
    path = tmp_path / "typed.yaml"
    path.write_text(TYPED.replace("AVRO", json.dumps(AVRO)))
    order: dict[str, Any] = {"id": 1, "tags": {"a": 5}, "at": "2026-01-01T12:00:00.000Z"}
    done = qanat_pipeline(path, {"orders": [{"key": "k", "value": order}]})

    done.expect("json", [{"key": "1", "value": order}])
    done.expect("csv", [{"value": "1,2026-01-01T12:00:00.000Z"}])
    done.expect("text", [{"key": "k", "value": "order 1"}])
    (row,) = done.rows("avro")
    read = fastavro.schemaless_reader(io.BytesIO(row["value"]), fastavro.parse_schema(AVRO), None)
    assert isinstance(read, dict)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert (row["key"], read) == ("1", {"id": 1, "tags": {"a": 5}, "at": noon})

    broken = qanat_pipeline(path, {"orders": [{"key": "k", "value": "no order"}]})
    broken.expect("tombstones", [{"key": "k", "value": None}])
    with pytest.raises(PipelineError, match=r"sink avro: row {'id': None, .* does not fit the Avro schema: "):
        broken.rows("avro")
    with pytest.raises(PipelineError, match="sink two: valueFormat text needs one column; there are id, at"):
        broken.rows("two")
    with pytest.raises(PipelineError, match="sink none: valueFormat needs columns for the value besides key"):
        broken.rows("none")


MODULE = """\
from pathlib import Path

def write(batch, batch_id, folder):
    with (Path(folder) / "calls").open("a") as file:
        file.write(f"{batch_id}: {sorted(row.name for row in batch.collect())}\\n")
    if (Path(folder) / "full").exists():
        raise OSError("no room")
"""
SINKS = """\
name: sinks
settings: {input: words, folder: x}
sources: {words: {topic: "${input}"}}
steps:
  words_only: {sql: "select string(value) as name from words"}
  counts: {sql: "select name as key, count(*) as n from words_only group by name"}
sinks:
  latest: {from: counts, topic: "${input}-counts", partitions: 1, mode: update, valueFormat: json}
  called: {from: words_only, python: "sink_functions:write", options: {folder: "${folder}"}}
  files: {from: words_only, format: csv, write: batch, options: {path: "${folder}/csv"}}
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "sink_functions.py").write_text(MODULE)
    path = tmp_path / "sinks.yaml"
    path.write_text(SINKS)
    yield path
    sys.modules.pop("sink_functions", None)


def test_a_micro_batch_that_is_repeated_updates_a_topic_once_and_keeps_its_number(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, pipeline: Path
) -> None:
    folder, output = pipeline.parent, f"{topic}-counts"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*names: bytes) -> None:
        for name in names:
            producer.produce(topic, name, partition=0)
        assert producer.flush(60) == 0

    def run() -> None:
        options = RunOptions(broker.bootstrap_servers, str(folder / "checkpoint"), is_available_now=True)
        settings = {"input": topic, "folder": str(folder)}
        watch(named(str(pipeline)).launch(spark, settings, options), Stop())

    send(b"ann", b"bob", b"ann")
    run()
    for sink in ("latest", "called"):
        # As if the run had been killed before Spark noted the end of the micro-batch.
        for file in (folder / "checkpoint" / sink / "commits").glob("*0*"):
            file.unlink()
    send(b"ann")
    run()

    written = [(record.key, json.loads(record.value or b"")) for record in broker.records(output)]
    assert sorted(written[:2], key=str) == [(b"ann", {"n": 2}), (b"bob", {"n": 1})]
    assert written[2:] == [(b"ann", {"n": 3})]
    resource = ConfigResource(ConfigResource.Type.TOPIC, output)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    configs = admin.describe_configs([resource])[resource].result(30)
    assert configs["cleanup.policy"].value == "compact"
    first = "0: ['ann', 'ann', 'bob']\n"
    assert (folder / "calls").read_text() == f"{first}{first}1: ['ann']\n"
    lines = spark.read.csv(str(folder / "csv"), "name string").collect()
    assert sorted(row.name for row in lines) == ["ann", "ann", "ann", "bob"]

    send(b"cid")
    (folder / "full").touch()
    with pytest.raises(PipelineError) as raised:
        run()
    assert str(raised.value) == (
        "sinks-called failed: pipeline sinks, sink called: sink_functions:write failed in micro-batch 2: "
        "OSError: no room (sink_functions.py line 7)"
    )


def test_a_format_that_spark_does_not_write_as_a_stream_is_named_with_the_remedy(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "stream.yaml"
    path.write_text(f"name: s\nsources: {{a: {{topic: {topic}}}}}\nsinks: {{out: {{from: a, format: jdbc}}}}\n")

    with pytest.raises(PipelineError, match="sink out: Spark does not write jdbc as a stream; add `write: batch`"):
        next(named(str(path)).launch(spark, {}, RunOptions(broker.bootstrap_servers, str(tmp_path / "checkpoint"))))
