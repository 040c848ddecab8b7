"""The settings of the pipeline `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.batch_limits import BATCH_TIME, LIMIT_BYTES, BatchLimits
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.python_pipelines import Setting, choice, duration
from qanat.spark.rollups.rules import Rules

ABOUT = """
input -> checked -> counted once -> windows of 1 minute, 5 minutes and 1 hour -> output and the lake
malformed and late records -> dead

A measurement is a JSON object: {"id": "7f0c", "metric": "http.latency_ms", "source": "web-03", "time": 1750003200000,
"value": 41.7}. One query reads the input once and writes rollups and dead letters in the same transactions; a second
one copies the rollups from their topic to the lake.

  qanat pipeline run metrics --lake /data/lake/metrics
  qanat pipeline run metrics --available-now --quantiles exact
"""
SETTINGS = (
    Setting("input", "metrics.inbound", "the topic of measurements"),
    Setting("dead", "metrics.dead", "malformed and late records, with the reason"),
    Setting("output", "metrics.rollup", "the topic of rollups"),
    Setting("lake", "lake/metrics", "a folder, or an address that Spark can write to; no lake, if empty"),
    Setting("start", "earliest", "where a first run begins: earliest, latest, group"),
    Setting("limit", "", "records in a micro-batch, if fewer than limit_bytes and batch_time allow; all: no limits"),
    Setting("limit_bytes", LIMIT_BYTES, "bytes of a micro-batch, as the log stores them; all: no limit"),
    Setting("batch_time", BATCH_TIME, "how long a micro-batch should take: a backlog is cut to that; all: no limit"),
    Setting("group", "qanat-metrics", "the consumer group that shows the pipeline's progress"),
    Setting("lateness", "10 minutes", "how much older than its timestamp in the log a measurement may be"),
    Setting("ahead", "1 minute", "how much newer"),
    Setting("delay", "15 minutes", "how long after its end a window stays open, in the time of the measurements"),
    Setting("quantiles", "sketch", "sketch: within a relative error; exact: keeps every value of an open window"),
    Setting("error", "0.01", "the relative error of a sketch's quantiles: 0.01 is one per cent"),
    Setting("every", "10 seconds", "the interval of micro-batches"),
    Setting("lake_every", "1 minute", "the interval of writes to the lake"),
)
_STARTS = ("earliest", "latest", "group")


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The parsed settings."""

    input: Subscription
    dead: str
    output: str
    lake: str
    start: str
    limits: BatchLimits
    group: str
    rules: Rules
    delay_ms: int
    error: float
    """The relative error of quantiles; 0 for exact ones."""
    every_s: int
    lake_every_s: int


def parse_settings(settings: Mapping[str, str]) -> MetricsSettings:
    """Parse the settings; raises `PipelineError` for a wrong one."""
    for name in ("input", "dead", "output"):
        if not settings[name]:
            raise PipelineError(f"{name} is empty: name a topic")
    is_exact = choice(settings, "quantiles", "sketch", "exact") == "exact"
    return MetricsSettings(
        input=Subscription(names=(settings["input"],)),
        dead=settings["dead"],
        output=settings["output"],
        lake=settings["lake"],
        start=choice(settings, "start", *_STARTS),
        limits=BatchLimits.of(settings),
        group=settings["group"],
        rules=Rules(
            duration(settings, "lateness") * 1000,
            duration(settings, "ahead") * 1000,
            settings["lateness"],
            settings["ahead"],
        ),
        delay_ms=duration(settings, "delay") * 1000,
        error=0.0 if is_exact else _error(settings["error"]),
        every_s=duration(settings, "every"),
        lake_every_s=duration(settings, "lake_every"),
    )


def _error(text: str) -> float:
    try:
        error = float(text)
    except ValueError:
        error = 0.0
    if not 0.0001 <= error <= 0.1:
        raise PipelineError(f"error is {text!r}, but must be a number from 0.0001 to 0.1: 0.01 is one per cent")
    return error
