"""YAML pipelines through a real Spark: run, stopped, resumed; and the errors of those that cannot run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.spark.conftest import QUIET

from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import Pipeline, RunOptions
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline
from qanat.spark.source import register
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

BIG = """\
name: big
settings: {input: orders, column: record.amount}
sources:
  orders: {topic: "${input}", schema: "amount int", limit: 400}
steps:
  big: {sql: "select key, value from orders where ${column} >= 50"}
sinks:
  out: {from: big, topic: "${input}-big", partitions: 2}
"""


def send(broker: EmbeddedBroker, topic: str, amounts: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for amount in amounts:
        producer.produce(topic, json.dumps({"amount": amount}).encode())
    assert producer.flush(60) == 0


def amounts(broker: EmbeddedBroker, topic: str) -> list[int]:
    return sorted(json.loads(record.value or b"")["amount"] for record in broker.records(topic))


def test_a_stop_lets_the_batch_finish_and_the_next_run_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    pipeline, stop = yaml_pipeline(BIG), Stop()
    send(broker, topic, range(1000))

    def look(tallies: list[Tally]) -> None:
        if tallies[0].batches >= 1:
            stop.request()

    checkpoint = str(tmp_path / "checkpoint")
    run_options = RunOptions(broker.bootstrap_servers, checkpoint)
    (first,) = watch(pipeline.launch(spark, {"input": topic}, run_options), stop, look)
    assert stop.times_requested == 1
    assert first.batches >= 1
    send(broker, topic, range(1000, 1200))
    run_options = RunOptions(broker.bootstrap_servers, checkpoint, is_available_now=True)
    watch(pipeline.launch(spark, {"input": topic}, run_options), Stop())

    assert amounts(broker, f"{topic}-big") == list(range(50, 1200))
    assert not [query for query in spark.streams.active if query.name == "big-out"]


@pytest.fixture
def slow_to_start(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The first Python process that a query starts takes longer than Spark waits; the file tells that it was begun."""
    begun, python = tmp_path / "begun", tmp_path / "python"
    python.write_text(f"""\
#!/bin/sh
case "$*" in *python_streaming_source_runner*)
    mkdir {begun} 2>/dev/null && sleep 12
esac
exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, str(python)
    register(spark)
    yield begun
    context.pythonExec = before
    register(spark)


@pytest.mark.long
def test_a_query_goes_on_when_a_python_process_was_too_slow_for_spark(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, slow_to_start: Path
) -> None:
    send(broker, topic, range(200))
    run_options = RunOptions(broker.bootstrap_servers, str(tmp_path / "checkpoint"), is_available_now=True)

    watch(yaml_pipeline(BIG).launch(spark, {"input": topic}, run_options), Stop())

    assert slow_to_start.exists()
    assert amounts(broker, f"{topic}-big") == list(range(50, 200))


def failing(spark: SparkSession, broker: EmbeddedBroker, folder: Path, pipeline: Pipeline, **settings: str) -> str:
    run_options = RunOptions(broker.bootstrap_servers, str(folder / "checkpoint"), is_available_now=True)
    with pytest.raises(PipelineError) as raised:
        watch(pipeline.launch(spark, settings, run_options), Stop())
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_cannot_run_is_said_in_one_sentence(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    def raised(text: str, **settings: str) -> str:
        return failing(spark, broker, tmp_path, yaml_pipeline(text), input=topic, **settings)

    assert "step big: [UNRESOLVED_COLUMN" in raised(BIG, column="amuont")
    with pytest.raises(PipelineError, match=r"sources\.orders\.schema: inte is not a Spark type; did you mean int\?"):
        yaml_pipeline(BIG.replace("amount int", "amount inte"))
    windows = "{from: orders, windows: {column: timestamp, sizes: {1m: 1 minute}, compute: {n: count(*)}}}"
    assert "timestamp has no watermark" in raised(BIG.replace('{sql: "select key, value from orders where ${column} >= 50"}', windows).replace(", column: record.amount", ""))  # fmt: skip # noqa: E501
    assert f"{topic}-gone" in raised(BIG.replace('topic: "${input}", schema', 'topic: "${input}-gone", schema'))


def test_a_pipeline_without_a_checkpoint_is_refused(spark: SparkSession, broker: EmbeddedBroker) -> None:
    with pytest.raises(PipelineError, match="pipeline big has no checkpoint"):
        next(yaml_pipeline(BIG).launch(spark, {}, RunOptions(broker.bootstrap_servers)))
