"""The settings of the pipeline `mirror`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qanat.connection.cluster import parse_bootstrap
from qanat.spark.options.options import Access, Subscription, access_of
from qanat.spark.pipelines.batch_limits import BATCH_TIME, BatchLimits
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import cluster_options
from qanat.spark.pipelines.python_pipelines import (
    Naming,
    Setting,
    choice,
    chosen,
    client_settings,
    duration,
    expression,
)

ABOUT = """
topics of the cluster that the command line names -> topics of the cluster at `to`

Copies records with key, value, headers, timestamp and partition, in order, each once. Topics are created at the target;
their settings and partitions follow the source's. Groups of the source get the same positions at the target, for
consumers that switch over. The topic qanat-mirror.NAME.offsets at the target maps old offsets to new ones; it is
written in the same transactions as the records, and the next run continues from it.

Records that came from the target are not mirrored back to it, neither directly nor through other clusters.

  qanat pipeline run mirror -b paris:9092 --to oslo:9092 --topics orders,payments
  qanat pipeline run mirror -b paris:9092 --to oslo:9092 --pattern '.*' --prefix paris. --groups 'billing.*'
"""
SETTINGS = (
    Setting("to", "", "the target: any of its brokers, host:port, several with commas"),
    Setting(
        "to_config",
        "",
        "a file of client settings for it: security.protocol=..., a line each",
    ),
    Setting("topics", "", "names, with commas; this or pattern"),
    Setting("pattern", "", "a regular expression over names, also for topics that are created later"),
    Setting("prefix", "", "prefix of the names at the target"),
    Setting("rename", "", "other names for some of them: old=new, with commas"),
    Setting("name", "", "the mirror's own name; two mirrors to one target need two. The source cluster's id, if empty"),
    Setting("groups", ".*", "groups whose positions are copied to the target, a regular expression; none, if empty"),
    Setting("start", "earliest", "where a partition begins that was never mirrored: earliest or latest"),
    Setting("every", "1 second", "how often the source is queried for more"),
    Setting("follow_every", "10 seconds", "how often settings, partitions and groups are updated"),
    Setting("limit_bytes", "64m", "approximate size limit of a transaction; all: no limits"),
    Setting("batch_time", BATCH_TIME, "how long a transaction should take: a backlog is cut to that; all: no limit"),
    Setting("group", "qanat-mirror", "the consumer group at the source that shows the mirror's progress"),
    Setting("compression", "none", "of the batches: none, gzip, snappy, lz4, zstd"),
    Setting("lost", "fail", "if records are gone before they were mirrored: fail, or skip them"),
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{0,100}")


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The parsed settings."""

    to: Access
    subscription: Subscription
    shown: str
    naming: Naming
    name: str
    groups: str | None
    start: str
    every_s: int
    follow_every_s: int
    limits: BatchLimits
    group: str
    compression: str
    is_loss_fatal: bool


def parse_settings(settings: Mapping[str, str]) -> MirrorSettings:
    """Parse the settings; raises `PipelineError` for a wrong one."""
    if not settings["to"]:
        raise PipelineError("to is missing: the target cluster, host:port")
    try:
        parse_bootstrap(settings["to"])
    except ValueError as fault:
        raise PipelineError(f"to {settings['to']}: {fault}") from None
    if not _NAME.fullmatch(settings["name"]):
        raise PipelineError(f"name {settings['name']!r} should have letters, digits, _ and -, at most 100")
    groups = settings["groups"]
    return MirrorSettings(
        to=access_of(cluster_options(settings["to"], client_settings(settings["to_config"]))),
        subscription=chosen(settings),
        shown=settings["topics"] or f"pattern {settings['pattern']}",
        naming=Naming.of(settings),
        name=settings["name"],
        groups=expression(groups, "groups").pattern if groups else None,
        start=choice(settings, "start", "earliest", "latest"),
        every_s=duration(settings, "every"),
        follow_every_s=duration(settings, "follow_every"),
        limits=BatchLimits.of({**settings, "limit": ""}),
        group=settings["group"],
        compression=choice(settings, "compression", "none", "gzip", "snappy", "lz4", "zstd"),
        is_loss_fatal=choice(settings, "lost", "fail", "skip") == "fail",
    )
