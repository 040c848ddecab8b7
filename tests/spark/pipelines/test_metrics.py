"""The pipeline `metrics` through a real Spark: its output equals that of a plain computation on the same input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Producer
from demo.fleet import MINUTE_MS, Sent, Truth, measure
from tests.spark.conftest import FOREVER, QUIET
from tests.spark.pipelines.plain import SIZES, Window, closed, expected

from qanat.model.dead_letters import parse_letter
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.progress import Tally

pytestmark = QUIET

START_MS = 1_750_003_200_000
MINUTES = 12
DELAY_MS = 15 * MINUTE_MS


def said(**fields: object) -> bytes:
    usual = {"id": "odd", "metric": "odd", "source": "web-01", "time": START_MS, "value": 1.0}
    return json.dumps({name: value for name, value in {**usual, **fields}.items() if value is not None}).encode()


ODD = [
    said(id=None), said(id=""), said(metric=None), said(source=None), said(time=None), said(time="noon"),
    said(time=START_MS + 0.5), said(time=2**63), said(value=None), said(value="7"), said(value=float("nan")),
    said(value=float("inf")), said(time=START_MS + 61 * MINUTE_MS), said(time=0), said(time=-5),
    b"[1, 2]", b'"text"', b"null", b"{", b"\xff\xfe", b"",
    said(id="first of all", time=START_MS - 10 * MINUTE_MS), said(id="a little ahead", time=START_MS + MINUTE_MS),
    said(id="just late", time=START_MS - 10 * MINUTE_MS - 1), said(id="just ahead", time=START_MS + MINUTE_MS + 1),
    said(id="whole", value=7), said(id="whole", value=7), said(id="Ümläut ☃", metric="größe"),
]  # fmt: skip
"""Records at the start besides the fleet's measurements."""


def send(broker: EmbeddedBroker, topic: str, records: Iterator[Sent] | list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for record in records:
        producer.produce(topic, record.value, key=record.key, timestamp=record.arrival_ms)
    assert producer.flush(60) == 0


class Run:
    """The pipeline with topics and folders of one test."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker, topic: str, folder: Path) -> None:
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        for name in (f"{topic}-dead", f"{topic}-rollup"):
            broker.create_topic(name, partitions=2, configs=FOREVER)

    def __call__(self, **settings: str) -> dict[str, Tally]:
        given = {"input": self.topic, "dead": f"{self.topic}-dead", "output": f"{self.topic}-rollup", **settings}
        given["lake"] = str(self.folder / "lake")
        run_options = RunOptions(self.broker.bootstrap_servers, str(self.folder / "checkpoint"), is_available_now=True)
        done = watch(named("metrics").launch(self.spark, given, run_options), Stop())
        return {tally.query: tally for tally in done}

    def rollups(self) -> dict[Window, dict[str, float]]:
        found = {}
        for record in self.broker.records(f"{self.topic}-rollup"):
            row = json.loads(record.value or b"")
            window = (row.pop("metric"), row.pop("source"), row.pop("window"), row.pop("start"))
            assert window not in found, "each window comes out once"
            assert row.pop("end") == record.timestamp == window[3] + SIZES[window[2]]
            assert record.key == "/".join(window[:3]).encode()
            found[window] = row
        return found

    def lake(self) -> list[tuple[Window, dict[str, float]]]:
        table = pyarrow.dataset.dataset(self.folder / "lake", format="parquet", exclude_invalid_files=True).to_table()
        rows = []
        for row in table.to_pylist():
            start, _ = row.pop("start"), row.pop("end")
            assert start.tzinfo is not None
            at = round(start.astimezone(UTC).timestamp() * 1000)
            rows.append(((row.pop("metric"), row.pop("source"), row.pop("window"), at), row))
        return rows


@pytest.fixture
def run(spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path) -> Run:
    return Run(spark, broker, topic, tmp_path)


@pytest.mark.long
def test_the_output_is_what_a_plain_computation_finds(run: Run, broker: EmbeddedBroker) -> None:
    """Late, doubled and broken records included, in two runs, the second of which continues where the first ended."""
    records = [Sent(b"odd", value, START_MS) for value in ODD]
    records += measure(START_MS, MINUTES, Truth())
    half = len(records) // 2
    send(broker, run.topic, records[:half])
    first = run(limit="1500")
    send(broker, run.topic, records[half:])
    second = run()

    stored = broker.records(run.topic)
    wanted = expected(stored)
    watermark_ms = max(record.timestamp for record in stored) - DELAY_MS
    rolled, rollups = closed(wanted.windows, watermark_ms), run.rollups()
    assert len(rolled) > 400
    assert rollups.keys() == rolled.keys()
    for window, values in rolled.items():
        assert rollups[window] == pytest.approx(values, rel=0.01), window
        assert rollups[window]["sum"] == pytest.approx(values["sum"], rel=1e-9), window
    assert sorted(run.lake(), key=lambda row: row[0]) == sorted(rollups.items())

    dead, reasons = {}, {}
    for record in broker.records(f"{run.topic}-dead"):
        letter = parse_letter(record.headers)
        assert letter is not None
        place = (letter.origin.partition, letter.origin.offset)
        assert letter.origin.topic == run.topic
        assert letter.origin.timestamp_ms == record.timestamp
        reasons[place] = letter.origin.message
        assert place not in dead, "each dead letter comes once"
        dead[place] = record
    originals = {(record.partition, record.offset): record for record in stored}
    assert {place: reason.split()[0] for place, reason in reasons.items()} == wanted.dead
    assert all(
        (dead[place].value, dead[place].key, dead[place].timestamp)
        == (originals[place].value, originals[place].key, originals[place].timestamp)
        for place in dead
    )

    tallies = [runs["metrics-rollup"] for runs in (first, second)]
    assert sum(tally.rows for tally in tallies) == len(stored)
    assert sum(tally.duplicates for tally in tallies) == wanted.duplicates > 5
    assert sum(tally.late for tally in tallies) == 0
    assert tallies[1].lag == 0


def test_rows_that_the_watermark_drops_are_counted(run: Run, broker: EmbeddedBroker) -> None:
    """A partition that is read an hour behind the others: on time by its own log, too late for Spark."""

    def one(name: str, minute: int) -> Sent:
        at = START_MS + minute * MINUTE_MS
        return Sent(name.encode(), said(id=name, time=at), at)

    send(broker, run.topic, [one("now", 120)])
    run(quantiles="exact")
    send(broker, run.topic, [one("behind", 0), one("late as well", 60), one("on time", 110)])
    tally = run()["metrics-rollup"]

    assert (tally.rows, tally.late) == (3, 2)
