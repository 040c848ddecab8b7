"""The settings of the pipeline `archive`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.batch_limits import BATCH_TIME, BatchLimits
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.python_pipelines import Setting, choice, chosen, duration, expression, number

ABOUT = """
topics of a cluster -> LAKE/topic=T/date=D/hour=H/*.parquet

Each record is in the lake once, even after crashes and restarts: the lake stores its position, and the next run
continues there. Every commit (LAKE/_qanat/commits) also stores the topics' settings and partitions and the positions
of consumer groups. `replay` restores all of it, up to any point in time.

  qanat pipeline run archive --topics orders,payments --lake /backup/shop
  qanat pipeline run archive --pattern '.*' --lake /backup/all --available-now
"""
SETTINGS = (
    Setting("topics", "", "names, with commas; this or pattern"),
    Setting("pattern", "", "a regular expression over names, also for topics that are created later"),
    Setting("lake", "lake/archive", "a folder of its own, or an address that Arrow can write to (s3://...)"),
    Setting("start", "earliest", "where a new partition begins: earliest or latest"),
    Setting("every", "1 minute", "a batch is written after so much time"),
    Setting("enough", "100000", "... or after so many records"),
    Setting("limit_bytes", "256m", "approximate size limit of a batch; all: no limits"),
    Setting("batch_time", BATCH_TIME, "how long a batch should take: a backlog is cut to that; all: no limit"),
    Setting("group", "qanat-archive", "the consumer group that shows the archive's progress"),
    Setting("groups", ".*", "consumer groups whose positions are stored, a regular expression"),
    Setting("state_every", "30 seconds", "how often changes of topics and groups are stored"),
    Setting("lost", "fail", "if records are gone before they were archived: fail, or skip them"),
)


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The parsed settings."""

    subscription: Subscription
    lake: str
    start: str
    delay_s: int
    enough: int
    limits: BatchLimits
    group: str
    groups: str
    state_every_s: int
    is_loss_fatal: bool
    shown: str
    """The choice of topics as the user wrote it."""


def parse_settings(settings: Mapping[str, str]) -> ArchiveSettings:
    """Parse the settings; raises `PipelineError` for a wrong one."""
    if not settings["lake"]:
        raise PipelineError("lake is empty: name a folder")
    return ArchiveSettings(
        subscription=chosen(settings),
        lake=settings["lake"],
        start=choice(settings, "start", "earliest", "latest"),
        delay_s=duration(settings, "every"),
        enough=number(settings, "enough"),
        limits=BatchLimits.of({**settings, "limit": ""}),
        group=settings["group"],
        groups=expression(settings["groups"] or "(?!)", "groups").pattern,
        state_every_s=duration(settings, "state_every"),
        is_loss_fatal=choice(settings, "lost", "fail", "skip") == "fail",
        shown=settings["topics"] or f"pattern {settings['pattern']}",
    )
