"""Steps in Python through a real Spark, on given rows and on a stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
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

MODULE = """\
import json
from collections.abc import Iterator
from pyspark.sql import functions
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import Row

import step_words

def doubled(frame, factor):
    return frame.withColumn("n", functions.col("n") * factor)

def parsed(row):
    found = json.loads(row["value"])
    return {"name": found["name"], "n": step_words.LENGTH[found["name"]]}

def nothing(frame):
    pass

def raising(frame):
    raise KeyError(
        "name")

class Counts(StatefulProcessor):
    def init(self, handle):
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        before = self._count.get()[0] if self._count.exists() else 0
        count = before + len(list(rows))
        self._count.update((count,))
        yield Row(name=key[0], count=count)

    def close(self):
        pass

def counted(frame):
    counts = frame.groupBy("name").transformWithState(Counts(), "name string, count bigint", "Append", "None")
    return counts.selectExpr("name as key", "cast(count as string) as value")
"""
PIPELINE = """\
name: steps
settings: {input: words}
sources: {words: {topic: "${input}"}}
steps:
  parsed: {from: words, rows: "step_functions:parsed", returns: "name string, n int"}
  doubled: {from: parsed, python: "step_functions:doubled", options: {factor: 2}}
  counted: {from: parsed, python: "step_functions:counted"}
sinks:
  out: {from: counted, topic: "${input}-out", partitions: 1}
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pipeline and its modules, which only this folder has; they are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "step_functions.py").write_text(MODULE)
    (tmp_path / "step_words.py").write_text("LENGTH = {'ann': 3, 'bo': 2}\n")
    path = tmp_path / "steps.yaml"
    path.write_text(PIPELINE)
    yield path
    for name in ("step_functions", "step_words"):
        sys.modules.pop(name, None)


@pytest.mark.long
@pytest.mark.data
def test_functions_compute_tables_and_their_errors_name_step_and_record(
    qanat_pipeline: PipelineTests, pipeline: Path
) -> None:
    done = qanat_pipeline(pipeline, {"words": [{"value": {"name": name}} for name in ("ann", "bo", "ann")]})

    done.expect("doubled", [{"name": "ann", "n": 6}, {"name": "ann", "n": 6}, {"name": "bo", "n": 4}])
    done.expect("out", [{"key": "ann", "value": "2"}, {"key": "bo", "value": "1"}])

    wrong = qanat_pipeline(pipeline, {"words": [{"value": {"name": "bo"}}, {"value": {"name": "cid"}}]}, input="names")
    with pytest.raises(PipelineError) as raised:
        wrong.rows("doubled")
    assert str(raised.value) == (
        "pipeline steps, doubled: pipeline steps, step parsed: step_functions:parsed failed at offset 1 of names "
        "partition 0: KeyError: 'cid' (step_functions.py line 14)"
    )
    for function, message in {
        "nothing": "step_functions:nothing returned NoneType, but must return a DataFrame",
        "raising": r"step_functions:raising failed: KeyError: 'name' \(step_functions.py line 20\)",
    }.items():
        pipeline.write_text(PIPELINE.replace("step_functions:counted", f"step_functions:{function}"))
        with pytest.raises(PipelineError, match=f"pipeline steps, step counted: {message}"):
            qanat_pipeline(pipeline, {})


def test_a_record_that_a_step_rejects_stops_the_query_and_nothing_is_lost(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, pipeline: Path
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*names: str) -> None:
        for name in names:
            producer.produce(topic, b'{"name": "%s"}' % name.encode(), partition=0)
        assert producer.flush(60) == 0

    def run() -> None:
        options = RunOptions(broker.bootstrap_servers, str(pipeline.parent / "checkpoint"), is_available_now=True)
        watch(named(str(pipeline)).launch(spark, {"input": topic}, options), Stop())

    def written() -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in broker.records(f"{topic}-out")]

    send("ann", "cid")
    with pytest.raises(PipelineError) as raised:
        run()
    assert f"step_functions:parsed failed at offset 1 of {topic} partition 0: KeyError: 'cid'" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert written() == []

    import step_words  # type: ignore[import-not-found]

    step_words.LENGTH["cid"] = 3
    run()
    assert sorted(written()) == [(b"ann", b"1"), (b"cid", b"1")]
