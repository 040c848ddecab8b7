"""The settings of the pipeline `replay`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.python_pipelines import Naming, Setting, choice, chosen, expression, is_on, number
from qanat.spark.pipelines.timestamps import timestamp_ms

ABOUT = """
LAKE -> topics of the cluster that the command line names

Restores records with key, value, headers, timestamp and partition, in order, each once: after an interruption it
continues; run again, it changes nothing. Topics are created with their settings and partitions. Existing topics must be
empty. Offsets are new; the topic qanat-replay.ID.offsets maps old ones to new ones.

  qanat pipeline run replay --lake /backup/shop --until 2026-11-15T10:30
  qanat pipeline run replay --lake /backup/shop --topics orders --prefix restored. --groups 'billing|audit'
  qanat pipeline run replay --lake /backup/shop --verify

--verify writes nothing: it compares the lake with the topics, and the exit code is 1 if they differ.
"""
SETTINGS = (
    Setting("lake", "lake/archive", "the lake that `archive` wrote"),
    Setting("topics", "", "names in the lake, with commas; all, without this and pattern"),
    Setting("pattern", "", "a regular expression over names"),
    Setting("until", "", "skip records with a later timestamp: 2026-11-15T10:30:00 (UTC) or milliseconds"),
    Setting("from", "", "skip records with an earlier timestamp"),
    Setting("prefix", "", "prefix of the names of the restored topics"),
    Setting("rename", "", "other names for some of them: old=new, with commas"),
    Setting("groups", "", "consumer groups whose positions are restored, a regular expression; none, if empty"),
    Setting("override", "", "topic settings other than those in the lake: retention.ms=-1, with commas"),
    Setting("limit", "500000", "approximate number of records in a transaction"),
    Setting("compression", "none", "of the batches: none, gzip, snappy, lz4, zstd"),
    Setting("verify", "false", "compare, and write nothing"),
)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The parsed settings."""

    lake: str
    subscription: Subscription
    shown: str
    """The choice of topics as the user wrote it."""
    until_ms: int | None
    from_ms: int | None
    naming: Naming
    groups: str | None
    override: Mapping[str, str]
    limit: int
    compression: str
    is_drill: bool

    def ledger_topic(self, lake_id: str) -> str:
        """The ledger of a lake and time range: the same replay, run again, finds its progress there."""
        said = f"{lake_id} {self.from_ms} {self.until_ms}".encode()
        return f"qanat-replay.{hashlib.sha256(said).hexdigest()[:12]}.offsets"


def parse_settings(settings: Mapping[str, str]) -> ReplaySettings:
    """Parse the settings; raises `PipelineError` for a wrong one."""
    until_ms, from_ms = (_timestamp(settings, name) for name in ("until", "from"))
    if until_ms is not None and from_ms is not None and until_ms < from_ms:
        raise PipelineError(f"until {settings['until']} is before from {settings['from']}")
    groups = settings["groups"]
    return ReplaySettings(
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


def check_settings(settings: Mapping[str, str]) -> None:
    """Check the settings before Spark starts, and that the lake exists."""
    from qanat.spark.lake.lake import Lake

    Lake.open_existing(parse_settings(settings).lake)


def _timestamp(settings: Mapping[str, str], name: str) -> int | None:
    return timestamp_ms(settings[name], name) if settings[name] else None


def _assigned(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise PipelineError(f"override {pair!r} should read name=value, several with commas")
        found[name.strip()] = value.strip()
    return found
