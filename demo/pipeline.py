"""The chapter on Spark: a fleet's measurements through a broker and the pipeline `metrics`, checked at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from demo import rollups
from demo.broker import running_broker
from demo.claims import claim
from demo.fleet import HOUR_MS, Sent, Spot, Truth, measure
from demo.producing import TOPIC, produce_by_http, produce_by_kafka
from demo.rollups import Rollup
from qanat.app.pipelines.pipeline_runner import quiet_settings
from qanat.model import dead_letters
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.session import SHORT_LIVED_JAVA, session

PARTITIONS = 4
EVERY_MS = 160
"""How often each source measures each metric: twelve thousand measurements a minute."""
BY_HTTP = 50_000
"""So many measurements, the first ones, are sent over HTTP."""
QUANTILE_ERROR = 0.01
"""The pipeline's default."""


class Produced(NamedTuple):
    """How many records were produced, and how long that took."""

    records: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.records:,} records, {self.records / max(self.seconds, 0.001):,.0f} records/s"


@dataclass(slots=True)
class Outcome:
    """The results of the chapter."""

    truth: Truth
    rollups: dict[Spot, Rollup]
    tallies: list[Tally]
    by_http: Produced
    by_kafka: Produced
    pipeline_s: float
    rates: list[tuple[float, float]]
    """Seconds since the pipeline's start, and measurements a second of a micro-batch that ended then."""
    checks: list[str]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Callbacks for progress."""

    step: Callable[[str], None]
    produced: Callable[[int], None]
    tallies: Callable[[list[Tally]], None]


def run(folder: Path, minutes: int, on: Callbacks) -> Outcome:
    """Feed, run, read back, compare; raises `ClaimError` where something does not add up."""
    truth = Truth()
    # Long enough ago that the fleet's last sign of life, which closes the windows, is not in the future.
    start_ms = (round(time.time() * 1000) // HOUR_MS - 2) * HOUR_MS - minutes * 60_000
    records = measure(start_ms - start_ms % HOUR_MS, minutes, truth, every_ms=EVERY_MS)
    on.step(f"starting a broker, sending {BY_HTTP:,} measurements over HTTP")
    with running_broker(folder / "broker") as (_, address, http):
        _create(address)
        by_http = _produced(produce_by_http, http, islice(records, BY_HTTP), on.produced)
        on.step(f"sending {minutes} minutes of measurements through librdkafka, as they are made")
        by_kafka = _produced(produce_by_kafka, address, records, on.produced)
        on.step("starting Spark, running the pipeline metrics")
        started = time.perf_counter()
        tallies, rates = _run_pipeline(folder, address, on)
        pipeline_s = time.perf_counter() - started
        on.step("reading topics and lake, comparing with the records sent")
        found = rollups.from_topic(address, "metrics.rollup")
        checks = _checked(truth, found, rollups.from_lake(folder / "lake"), address, tallies)
    return Outcome(truth, found, tallies, by_http, by_kafka, pipeline_s, rates, checks)


def _produced(
    produce: Callable[[str, Iterable[Sent], Callable[[int], None]], float],
    address: str,
    records: Iterable[Sent],
    progress: Callable[[int], None],
) -> Produced:
    count = 0

    def counted(more: int) -> None:
        nonlocal count
        count += more
        progress(more)

    seconds = produce(address, records, counted)
    return Produced(count, seconds)


def _create(address: str) -> None:
    from qanat.spark.options.options import Access
    from qanat.spark.pipelines.topics import make_missing

    make_missing(Access(address), {TOPIC: PARTITIONS})


def _run_pipeline(folder: Path, address: str, on: Callbacks) -> tuple[list[Tally], list[tuple[float, float]]]:
    quiet = quiet_settings(java_options=SHORT_LIVED_JAVA)
    rates: list[tuple[float, float]] = []
    started, batches = time.perf_counter(), 0

    def look(tallies: list[Tally]) -> None:
        nonlocal batches
        rollup = tallies[0]
        if rollup.batches > batches:
            batches = rollup.batches
            rates.append((time.perf_counter() - started, rollup.rows_per_second))
        on.tallies(tallies)

    spark = session("qanat-demo", "local[2]", {**quiet, "spark.ui.enabled": "false"})
    try:
        on.step(f"Spark {spark.version} is up; its first micro-batches are slow: it starts workers and compiles")
        settings = {"lake": str(folder / "lake")}
        run_options = RunOptions(address, str(folder / "checkpoint"), is_available_now=True)
        return watch(named("metrics").launch(spark, settings, run_options), Stop(), look), rates
    finally:
        spark.stop()


def _checked(
    truth: Truth, topic: dict[Spot, Rollup], lake: dict[Spot, Rollup], address: str, tallies: list[Tally]
) -> list[str]:
    wanted = rollups.expected(truth)
    dead = rollups.read_topic(address, "metrics.dead")
    late = sum(headers[dead_letters.MESSAGE].startswith("late") for _, headers in dead)
    duplicates = sum(tally.duplicates for tally in tallies)
    checks: list[str] = []

    def check(holds: bool, what: str) -> None:
        claim(holds, what)
        checks.append(what)

    check(
        len(dead) - late == truth.broken and late == truth.late,
        f"{truth.broken:,} broken and {truth.late:,} late records are in metrics.dead, each with its reason",
    )
    check(duplicates == truth.duplicates, f"{truth.duplicates:,} duplicates are counted once")
    check(sum(tally.late for tally in tallies) == 0, "nothing else is left out")
    check(
        rollups.agree(topic, wanted, QUANTILE_ERROR),
        f"{len(wanted):,} windows of {truth.accepted:,} measurements equal a plain computation, "
        f"quantiles within {QUANTILE_ERROR:.0%}",
    )
    check(rollups.agree(lake, topic), "the Parquet lake holds the same windows, each once")
    return checks
