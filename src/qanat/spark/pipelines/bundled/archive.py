"""The pipeline `archive`: topics into a lake of Parquet files, each record once, with what a restore needs besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.python_pipelines import Setting, choice, chosen, coded, expression, number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.bundled.catalogue import How, Stages

ABOUT = """
topics of a cluster -> LAKE/topic=T/date=D/hour=H/*.parquet

Each record is in the lake once, whatever is killed and started again: the lake knows how far it is, and the next
run goes on there. Every commit (LAKE/_qanat/commits) also keeps the topics' settings and partitions and where
consumer groups stood. `replay` brings it all back, up to any point in time.

  qanat pipeline run archive --topics orders,payments --lake /backup/shop
  qanat pipeline run archive --pattern '.*' --lake /backup/all --available-now
"""

SETTINGS = (
    Setting("topics", "", "names, with commas; this or pattern"),
    Setting("pattern", "", "a regular expression over names; topics that come later are taken as well"),
    Setting("lake", "lake/archive", "a folder of its own, or an address that Arrow can write to (s3://...)"),
    Setting("start", "earliest", "where a partition begins that the lake does not know: earliest or latest"),
    Setting("every", "1 minute", "a batch is written when so much time has passed"),
    Setting("enough", "100000", "... or when so many records have come"),
    Setting("limit_bytes", "256m", "about how much a batch takes at most"),
    Setting("group", "qanat-archive", "the consumer group that shows how far the archive is"),
    Setting("groups", ".*", "consumer groups whose positions are kept, a regular expression"),
    Setting("state_every", "30 seconds", "how often topics and groups are looked at while nothing comes"),
    Setting("lost", "fail", "what if records are gone before they were archived: fail, or skip them"),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings, understood."""

    subscription: Subscription
    lake: str
    start: str
    delay_s: int
    enough: int
    limit_bytes: str
    group: str
    groups: str
    state_every_s: int
    is_loss_fatal: bool
    shown: str
    """The choice of topics in the user's words."""


def understood(settings: Mapping[str, str]) -> Wanted:
    """Raises `PipelineError` where a setting cannot be used."""
    if not settings["lake"]:
        raise PipelineError("lake is empty: name a folder")
    return Wanted(
        subscription=chosen(settings),
        lake=settings["lake"],
        start=choice(settings, "start", "earliest", "latest"),
        delay_s=duration(settings, "every"),
        enough=number(settings, "enough"),
        limit_bytes=settings["limit_bytes"],
        group=settings["group"],
        groups=expression(settings["groups"] or "(?!)", "groups").pattern,
        state_every_s=duration(settings, "state_every"),
        is_loss_fatal=choice(settings, "lost", "fail", "skip") == "fail",
        shown=settings["topics"] or f"pattern {settings['pattern']}",
    )


def duration(settings: Mapping[str, str], name: str) -> int:
    """A setting that is a time, in seconds."""
    try:
        return seconds_of(settings[name])
    except ValueError as fault:
        raise PipelineError(f"{name}: {fault}") from None


def launch(spark: SparkSession, settings: Mapping[str, str], how: How) -> Stages:
    from qanat.spark.pipelines.bundled.archive_run import archive

    return archive(spark, understood(settings), how)


PIPELINE = coded(
    "archive",
    "Topics into a Parquet lake, exactly once, with settings, offsets and group positions: a backup.",
    ABOUT,
    SETTINGS,
    understood,
    launch,
)
