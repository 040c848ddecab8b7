"""`python -m bench.spark.pipelines`: bundled pipelines in steady state, by turns with what stands for their ceiling.

    metrics   a plain stream written by hand: duplicates dropped within the watermark on RocksDB, windows of one minute
              with `percentile_approx`, 250,000 rows a micro-batch, to a topic
    archive   a batch job that reads the topic and writes Parquet
    mirror    a batch job that reads the topic and writes another, at least once

All run in one session with the settings of `qanat pipeline run`. The first micro-batches of a stream, in which Spark
starts workers and compiles, do not count.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools.backlog.filling import fill
from tools.backlog.measurements import AFTER_MS, SPAN_MS, Backlog
from tools.servers import qanat

from bench.spark.sides import PARTITIONS, EngineFailedError
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Limit, Required, Row, row
from qanat.app.bench.report import Result
from qanat.app.pipelines.pipeline_runner import quiet_settings
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "metrics.inbound"
STARTING = 2
"""The micro-batches that do not count."""
BY_HAND_ROWS = 250_000
_METRICS = (Required("ratio", ">=", 1.2), Required("ratio", ">=", 3.0))
_COPIES = (Required("ratio", ">=", 0.6),)
"""What is wanted, and the goal where there is one."""
_HOUR_MS = 3_600_000
_MEASUREMENT = "id string, metric string, source string, time bigint, value double"
_TOPIC_S = 60.0


class Sides:
    """What is measured, by name: each takes its round and returns rows a second."""

    def __init__(self, spark: SparkSession, source: str, target: str, folder: Path) -> None:
        self._spark, self._source, self._target, self._folder = spark, source, target, folder
        self._access = {"kafka.bootstrap.servers": source}

    def metrics(self, number: int) -> float:
        names = {"output": f"rollup-{number}", "dead": f"dead-{number}", "group": "", "lake": ""}
        return self._steady("metrics", number, names)

    def by_hand(self, number: int) -> float:
        topic = f"by-hand-{number}"
        self._make(self._source, topic)
        reader = self._spark.readStream.format("qanat").options(**self._access, startingOffsets="earliest")
        rows = reader.options(subscribe=TOPIC, maxOffsetsPerTrigger=str(BY_HAND_ROWS)).load()
        writer = by_hand(rows).writeStream.format("qanat").options(**self._access, topic=topic)
        query = writer.option("checkpointLocation", str(self._folder / topic)).trigger(availableNow=True).start()
        query.awaitTermination()
        done = [one for one in query.recentProgress if one.numInputRows][STARTING:]
        return sum(one.numInputRows for one in done) / (sum(one.durationMs["triggerExecution"] for one in done) / 1000)

    def archive(self, number: int) -> float:
        lake = self._folder / f"lake-{number}"
        rate = self._steady("archive", number, {"topics": TOPIC, "lake": str(lake), "group": ""}, starting=1)
        shutil.rmtree(lake)
        return rate

    def to_parquet(self, number: int) -> float:
        lake = self._folder / f"plain-{number}"
        frame = self._frame()
        rate = _rate(frame, lambda: frame.write.parquet(str(lake)))
        shutil.rmtree(lake)
        return rate

    def mirror(self, number: int) -> float:
        settings = {"topics": TOPIC, "to": self._target, "prefix": f"m{number}.", "name": f"m{number}", "group": ""}
        rate = self._steady("mirror", number, settings, starting=1)
        self._delete(f"m{number}.{TOPIC}")
        return rate

    def to_topic(self, number: int) -> float:
        topic = f"plain-{number}"
        self._make(self._target, topic)
        frame = self._frame()
        options = {"kafka.bootstrap.servers": self._target, "topic": topic, "includeHeaders": "true"}
        rate = _rate(frame, lambda: frame.write.format("qanat").mode("append").options(**options).save())
        self._delete(topic)
        return rate

    def _frame(self) -> DataFrame:
        reader = self._spark.read.format("qanat").options(**self._access, includeHeaders="true")
        return reader.option("subscribe", TOPIC).load()

    def _steady(self, name: str, number: int, settings: Mapping[str, str], starting: int = STARTING) -> float:
        seen: list[tuple[int, float]] = []

        def look(tallies: list[Tally]) -> None:
            one = tallies[0]
            while len(seen) < one.batches:
                seen.append((one.rows, one.seconds))

        place = str(self._folder / f"{name}-{number}")
        run_options = RunOptions(self._source, place, is_available_now=True)
        (tally,) = watch(named(name).launch(self._spark, settings, run_options), Stop(), look)
        if len(seen) <= starting:
            raise EngineFailedError(
                f"{name} took {len(seen)} micro-batches, of which the first {starting} do not count: "
                "give it more --records"
            )
        rows, seconds = seen[starting - 1]
        return (tally.rows - rows) / (tally.seconds - seconds)

    def _make(self, address: str, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_TOPIC_S)

    def _delete(self, topic: str) -> None:
        AdminClient({"bootstrap.servers": self._target}).delete_topics([topic])[topic].result(_TOPIC_S)


def by_hand(rows: DataFrame) -> DataFrame:
    """Windows of one minute as a user would write them."""
    from pyspark.sql import functions as of

    measured = rows.select(of.from_json(rows.value.cast("string"), _MEASUREMENT).alias("m")).select("m.*")
    measured = measured.where("metric is not null").withColumn("at", of.timestamp_millis("time")).drop("time")
    once = measured.withWatermark("at", "15 minutes").dropDuplicatesWithinWatermark(["id", "metric", "source"])
    quantiles = of.percentile_approx("value", [0.5, 0.95, 0.99]).alias("quantiles")
    sums = [of.count("*").alias("count"), of.sum("value").alias("sum"), of.min("value").alias("min")]
    windows = once.groupBy("metric", "source", of.window("at", "1 minute"))
    rolled = windows.agg(*sums, of.max("value").alias("max"), quantiles)
    return rolled.select(of.concat_ws("/", "metric", "source").alias("key"), of.to_json(of.struct("*")).alias("value"))


def _rate(frame: DataFrame, act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    seconds = time.perf_counter() - began
    return frame.count() / seconds


def measured(records: int, rounds: int, only: str | None = None) -> Result:
    """The pipelines beside their ceilings."""
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-pipelines-", ignore_cleanup_errors=True)))
        source = stack.enter_context(qanat().running(folder / "source")).address
        target = stack.enter_context(qanat().running(folder / "target")).address
        _show(f"filling a topic with {records:,} records")
        start_ms = (int(time.time() * 1000) - SPAN_MS - AFTER_MS) // _HOUR_MS * _HOUR_MS - _HOUR_MS
        fill(source, TOPIC, Backlog(records, start_ms), _show)
        state = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        settings = {
            **quiet_settings(),
            "spark.ui.enabled": "false",
            "spark.sql.streaming.stateStore.providerClass": state,
        }
        settings |= {"spark.sql.shuffle.partitions": "2"}
        spark = session("bench-pipelines", "local[2]", settings)
        stack.callback(spark.stop)
        sides = Sides(spark, source, target, folder)
        for what, ours, theirs, limit, bounds in (
            ("metrics, steady state", sides.metrics, sides.by_hand, "a plain stream written by hand", _METRICS),
            ("archive, steady state", sides.archive, sides.to_parquet, "a batch job from topic to Parquet", _COPIES),
            ("mirror, steady state", sides.mirror, sides.to_topic, "a batch job from topic to topic", _COPIES),
        ):
            name = what.partition(",")[0]
            if only in (None, name):
                rows.append(_by_turns(f"pipeline-{name}", what, ours, theirs, limit, bounds, rounds))
        about = machine.describe(folder)
    settings = {"pipelines": f"{records:,} measurements of some 100 B; {rounds} rounds, by turns"}
    return Result(about, settings, rows, [], [])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.spark.pipelines", description="Bundled pipelines, rows a second.")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["metrics", "archive", "mirror"])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    given = parser.parse_args(arguments)
    try:
        result = measured(given.records, given.rounds, given.only)
    except EngineFailedError as fault:
        print(f"bench.spark.pipelines: {fault}", file=sys.stderr)
        return 2
    report.print_table(result)
    return 1 if given.check and result.missed else 0


def _by_turns(
    figure: str,
    what: str,
    ours: Callable[[int], float],
    theirs: Callable[[int], float],
    limit: str,
    bounds: Sequence[Required],
    rounds: int,
) -> Row:
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        turns = [(ours, found[0]), (theirs, found[1])]
        for act, rates in turns if number % 2 == 0 else reversed(turns):
            rates.append(act(number))
        _show(f"{what}, round {number + 1}: {found[0][-1]:,.0f} rows/s; {limit}: {found[1][-1]:,.0f} rows/s")
    return row(figure, what, "rows/s", found[0], Limit(found[1], limit), *bounds)


def _show(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
