"""The pipeline `mirror`: topics of one cluster in another, each record once, and the groups where they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat.connection.cluster import parse_bootstrap
from qanat.spark.options.options import Access, Subscription, access_of
from qanat.spark.pipelines.bundled.archive import duration
from qanat.spark.pipelines.bundled.catalogue import cluster_options
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.python_pipelines import Naming, Setting, choice, chosen, client_settings, coded, expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.bundled.catalogue import How, Stages

ABOUT = """
topics of the cluster that the command line names -> topics of the cluster at `to`

Records arrive with key, value, headers, timestamp and partition, in order, each once. Topics are created at the target;
their settings and partitions follow the source's. Groups of the source are put to the same place at the target, for
consumers who move over. Which offset became which is kept at the target, in the topic qanat-mirror.NAME.offsets, in
the same transactions as the records: from it the next run knows where to go on.

What came from the target is not mirrored back to it, neither directly nor by way of others.

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
    Setting("pattern", "", "a regular expression over names; topics that come later are taken as well"),
    Setting("prefix", "", "what the names at the target begin with"),
    Setting("rename", "", "other names for some of them: old=new, with commas"),
    Setting("name", "", "the mirror's own name; two mirrors to one target need two. The source cluster's id, if empty"),
    Setting("groups", ".*", "groups that are put to their place at the target, a regular expression; none, if empty"),
    Setting("start", "earliest", "where a partition begins that was never mirrored: earliest or latest"),
    Setting("every", "1 second", "how often the source is asked for more"),
    Setting("follow_every", "10 seconds", "how often settings, partitions and groups are brought up to date"),
    Setting("limit_bytes", "64m", "about how much a transaction takes at most"),
    Setting("group", "qanat-mirror", "the consumer group at the source that shows how far the mirror is"),
    Setting("compression", "none", "of the batches: none, gzip, snappy, lz4, zstd"),
    Setting("lost", "fail", "what if records are gone before they were mirrored: fail, or skip them"),
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{0,100}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings, understood."""

    to: Access
    subscription: Subscription
    shown: str
    naming: Naming
    name: str
    groups: str | None
    start: str
    every_s: int
    follow_every_s: int
    limit_bytes: str
    group: str
    compression: str
    is_loss_fatal: bool


def understood(settings: Mapping[str, str]) -> Wanted:
    """Raises `PipelineError` where a setting cannot be used."""
    if not settings["to"]:
        raise PipelineError("to is missing: the cluster that is written to, host:port")
    try:
        parse_bootstrap(settings["to"])
    except ValueError as fault:
        raise PipelineError(f"to {settings['to']}: {fault}") from None
    if not _NAME.fullmatch(settings["name"]):
        raise PipelineError(f"name {settings['name']!r} should have letters, digits, _ and -, at most 100")
    groups = settings["groups"]
    return Wanted(
        to=access_of(cluster_options(settings["to"], client_settings(settings["to_config"]))),
        subscription=chosen(settings),
        shown=settings["topics"] or f"pattern {settings['pattern']}",
        naming=Naming.of(settings),
        name=settings["name"],
        groups=expression(groups, "groups").pattern if groups else None,
        start=choice(settings, "start", "earliest", "latest"),
        every_s=duration(settings, "every"),
        follow_every_s=duration(settings, "follow_every"),
        limit_bytes=settings["limit_bytes"],
        group=settings["group"],
        compression=choice(settings, "compression", "none", "gzip", "snappy", "lz4", "zstd"),
        is_loss_fatal=choice(settings, "lost", "fail", "skip") == "fail",
    )


def launch(spark: SparkSession, settings: Mapping[str, str], how: How) -> Stages:
    from qanat.spark.pipelines.bundled.mirror_run import mirror

    return mirror(spark, understood(settings), how)


PIPELINE = coded(
    "mirror",
    "Topics of one cluster in another, exactly once, with their settings and the groups' positions.",
    ABOUT,
    SETTINGS,
    understood,
    launch,
)
