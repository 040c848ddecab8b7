"""A changed pipeline on a real Spark: refused with one sentence, and continued at the old offsets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.spark.conftest import QUIET

from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET
UPPER = """\
name: upper
sources: {lines: {topic: TOPIC}}
steps: {upper: {sql: "select key, upper(string(value)) as value, 1L as number from lines"}}
sinks: {out: {from: upper, topic: TOPIC-upper, partitions: 1}}
"""


def send(broker: EmbeddedBroker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, b"line %d" % number)
    assert producer.flush(60) == 0


@pytest.mark.long
def test_a_row_that_narrows_is_refused_and_a_new_checkpoint_continues_at_the_old_offsets(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    def run(text: str, checkpoint: str, from_checkpoint: str | None = None) -> None:
        run_options = RunOptions(
            broker.bootstrap_servers, checkpoint, is_available_now=True, from_checkpoint=from_checkpoint
        )
        watch(yaml_pipeline(text.replace("TOPIC", topic)).launch(spark, {}, run_options), Stop())

    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    send(broker, topic, range(10))
    run(UPPER, old)
    send(broker, topic, range(10, 15))
    narrower = UPPER.replace("1L as number", "1 as number")
    with pytest.raises(PipelineError) as fault:
        run(narrower, old)
    run(narrower, new, old)
    run(narrower, new, old)

    assert "its rows narrow: column number was bigint and is int; nothing was changed" in str(fault.value)
    assert sorted(record.value or b"" for record in broker.records(f"{topic}-upper")) == sorted(
        b"LINE %d" % number for number in range(15)
    )
