"""The pipeline `replay`: a lake back into topics, up to a point in time; and the drill that compares the two."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.python_pipelines import Naming, Setting, choice, chosen, coded, expression, is_on, number
from qanat.spark.pipelines.timestamps import moment_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.bundled.catalogue import How, Stages

ABOUT = """
LAKE -> topics of the cluster that the command line names

Records come back with key, value, headers, timestamp and partition, in order, each once: interrupted, it goes on
where it was; run again, it changes nothing. Topics are created with their settings and partitions. Those that are there
must be empty. Offsets are new ones; which old one became which is kept in the topic qanat-replay.ID.offsets.

  qanat pipeline run replay --lake /backup/shop --until 2026-11-15T10:30
  qanat pipeline run replay --lake /backup/shop --topics orders --prefix restored. --groups 'billing|audit'
  qanat pipeline run replay --lake /backup/shop --verify

With --verify nothing is written: the lake is compared with the topics, and the exit code is 1 if they differ.
"""

SETTINGS = (
    Setting("lake", "lake/archive", "what `archive` wrote"),
    Setting("topics", "", "names in the lake, with commas; all, if neither this nor pattern is given"),
    Setting("pattern", "", "a regular expression over names"),
    Setting("until", "", "records with a later timestamp stay in the lake: 2026-11-15T10:30:00 (UTC) or milliseconds"),
    Setting("from", "", "records with an earlier timestamp stay in the lake"),
    Setting("prefix", "", "what the names of the restored topics begin with"),
    Setting("rename", "", "other names for some of them: old=new, with commas"),
    Setting("groups", "", "consumer groups that are put where they stood, a regular expression; none, if empty"),
    Setting("override", "", "topic settings other than those in the lake: retention.ms=-1, with commas"),
    Setting("limit", "500000", "about how many records a transaction takes"),
    Setting("compression", "none", "of the batches: none, gzip, snappy, lz4, zstd"),
    Setting("verify", "false", "compare, and write nothing"),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings, understood."""

    lake: str
    subscription: Subscription
    shown: str
    """The choice of topics in the user's words."""
    until_ms: int | None
    from_ms: int | None
    naming: Naming
    groups: str | None
    override: Mapping[str, str]
    limit: int
    compression: str
    is_drill: bool

    def ledger_topic(self, lake_id: str) -> str:
        """One for each lake and stretch of time: running the same replay again finds what it has done."""
        said = f"{lake_id} {self.from_ms} {self.until_ms}".encode()
        return f"qanat-replay.{hashlib.sha256(said).hexdigest()[:12]}.offsets"


def understood(settings: Mapping[str, str]) -> Wanted:
    """Raises `PipelineError` where a setting cannot be used."""
    until_ms, from_ms = (_moment(settings, name) for name in ("until", "from"))
    if until_ms is not None and from_ms is not None and until_ms < from_ms:
        raise PipelineError(f"until {settings['until']} lies before from {settings['from']}: nothing is between them")
    groups = settings["groups"]
    return Wanted(
        lake=settings["lake"],
        subscription=chosen(settings, is_needed=False),
        shown=settings["topics"] or settings["pattern"] or "everything",
        until_ms=until_ms,
        from_ms=from_ms,
        naming=Naming.of(settings),
        groups=expression(groups, "groups").pattern if groups else None,
        override=_assigned(settings["override"]),
        limit=number(settings, "limit"),
        compression=choice(settings, "compression", "none", "gzip", "snappy", "lz4", "zstd"),
        is_drill=is_on(settings, "verify"),
    )


def checked(settings: Mapping[str, str]) -> None:
    """The same before Spark is started, and that there is a lake."""
    from qanat.spark.lake.lake import Lake

    Lake.opened(understood(settings).lake)


def _moment(settings: Mapping[str, str], name: str) -> int | None:
    return moment_ms(settings[name], name) if settings[name] else None


def _assigned(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise PipelineError(f"override {pair!r} should read name=value, several with commas")
        found[name.strip()] = value.strip()
    return found


def launch(spark: SparkSession, settings: Mapping[str, str], how: How) -> Stages:
    from qanat.spark.pipelines.bundled.replay_drill import drill
    from qanat.spark.pipelines.bundled.replay_run import replay

    wanted = understood(settings)
    return drill(spark, wanted, how) if wanted.is_drill else replay(spark, wanted, how)


PIPELINE = coded(
    "replay",
    "A lake of `archive` back into topics, up to a point in time; or, to verify, compared with them.",
    ABOUT,
    SETTINGS,
    checked,
    launch,
)
