"""Topic settings: Kafka's names, with type, default, meaning, and whether each has an effect here.

This one table is the source for the check of clients' changes, for DescribeConfigs, and for the page
`docs/operating/topic-settings.md`. Defaults of log settings are those of `LogSettings`. A setting without an effect is
accepted and remembered, so that tools and scripts made for Kafka run, and the table says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from qanat.broker.settings.setting_kinds import LONG_MAX, Form, SettingKind
from qanat.log.settings import CleanupPolicy, LogSettings
from qanat.model.errors import InvalidSettingError, MalformedMessageError
from qanat.model.spelling import did_you_mean
from qanat.model.topic_names import is_for_brokers, name_problem

_BOOLEAN = Form(SettingKind.BOOLEAN)
_REPLICAS = Form(SettingKind.LIST, is_replicas=True)
_LOG_DEFAULTS = LogSettings()
_UP_BYTES_MAX, _UP_WAIT_MS = 1024 * 1024 * 1024, 5_000
_UP_SEGMENTS = 8
"""Segments of a full outbox: its disk space is freed in so many steps."""
_UP_SEGMENT_BYTES_MIN = 2 * 1024 * 1024


def _int(least: int, most: int | None = None) -> Form:
    return Form(SettingKind.INT, least, most)


def _long(least: int) -> Form:
    return Form(SettingKind.LONG, least)


class TopicSetting(Struct, frozen=True):
    """One row of the table."""

    name: str
    form: Form
    default: str
    meaning: str
    broker_name: str | None = None
    """The name of the broker's default for it."""
    has_effect: bool = True
    """Whether it has an effect here."""


def _log(name: str, form: Form, meaning: str, broker_name: str) -> TopicSetting:
    """A setting of `LogSettings`."""
    default = getattr(_LOG_DEFAULTS, name.replace(".", "_"))
    return TopicSetting(name, form, str(default), meaning, broker_name)


def _idle(name: str, form: Form, default: str, meaning: str, broker_name: str | None = None) -> TopicSetting:
    """A setting that is known and has no effect."""
    return TopicSetting(name, form, default, meaning, broker_name, has_effect=False)


_ROWS = (
    _log(
        "cleanup.policy",
        Form(SettingKind.LIST, choices=("compact", "delete", "consume")),
        "What happens to old records: `delete` by age and size, `compact` to the latest value per key, or both; "
        "`consume`, alone or with `delete`: gone once every share group of `consume.groups` is past them.",
        "log.cleanup.policy",
    ),
    _log(
        "compression.gzip.level",
        Form(SettingKind.INT, 1, 9, also=-1),
        "With `compression.type` gzip: the level at which batches are re-encoded; -1 for a fast one.",
        "compression.gzip.level",
    ),
    _log(
        "compression.lz4.level",
        _int(1, 17),
        "With `compression.type` lz4: the level at which batches are re-encoded; 9, as in Kafka, is the fast one.",
        "compression.lz4.level",
    ),
    _log(
        "compression.type",
        Form(SettingKind.STRING, choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        "Codec on disk; anything but `producer` re-encodes batches that came otherwise.",
        "compression.type",
    ),
    _log(
        "compression.zstd.level",
        _int(-131072, 22),
        "With `compression.type` zstd: the level at which batches are re-encoded.",
        "compression.zstd.level",
    ),
    TopicSetting(
        "consume.groups",
        Form(SettingKind.LIST),
        "",
        "With `cleanup.policy` `consume`: the share groups that must be past a record before it is deleted.",
    ),
    _log(
        "delete.retention.ms",
        _long(0),
        "How long a tombstone or transaction marker stays readable after compaction reached it.",
        "log.cleaner.delete.retention.ms",
    ),
    _idle(
        "file.delete.delay.ms",
        _long(0),
        "60000",
        "Files are removed at once: readers hold them until they have finished.",
        "log.segment.delete.delay.ms",
    ),
    _log(
        "flush.messages",
        _long(1),
        "fsync after this many records; 1 acknowledges nothing that is not on disk (Kafka's default: never).",
        "log.flush.interval.messages",
    ),
    _log(
        "flush.ms",
        _long(0),
        "fsync at least this often where `flush.messages` alone would wait longer.",
        "log.flush.interval.ms",
    ),
    TopicSetting(
        "follower.replication.throttled.replicas",
        _REPLICAS,
        "",
        "Replicas that catch up at `follower.replication.throttled.rate` at most: `partition:broker,...` or `*`.",
    ),
    _log(
        "index.interval.bytes",
        _int(0),
        "Bytes of log between two entries of the sparse index.",
        "log.index.interval.bytes",
    ),
    TopicSetting(
        "leader.replication.throttled.replicas",
        _REPLICAS,
        "",
        "Leaders that let others catch up at `leader.replication.throttled.rate`: `partition:broker,...` or `*`.",
    ),
    _idle(
        "local.retention.bytes",
        _long(-2),
        "-2",
        "Bytes kept on the broker's disk of a topic in tiered storage, which there is none of.",
        "log.local.retention.bytes",
    ),
    _idle(
        "local.retention.ms",
        _long(-2),
        "-2",
        "How long a topic in tiered storage, which there is none of, is kept on the broker's disk.",
        "log.local.retention.ms",
    ),
    _log(
        "max.compaction.lag.ms",
        _long(1),
        "Records older than this are compacted whatever the dirty ratio.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _log(
        "max.message.bytes",
        _int(0),
        "Largest record batch accepted, as sent.",
        "message.max.bytes",
    ),
    _log(
        "message.timestamp.after.max.ms",
        _long(0),
        "How far a record's timestamp may lie after the broker's clock.",
        "log.message.timestamp.after.max.ms",
    ),
    _log(
        "message.timestamp.before.max.ms",
        _long(0),
        "How far a record's timestamp may lie before the broker's clock.",
        "log.message.timestamp.before.max.ms",
    ),
    _log(
        "message.timestamp.type",
        Form(SettingKind.STRING, choices=("CreateTime", "LogAppendTime")),
        "Whether records keep the producer's timestamp or get the broker's.",
        "log.message.timestamp.type",
    ),
    _log(
        "min.cleanable.dirty.ratio",
        Form(SettingKind.DOUBLE, 0, 1),
        "Share of not yet compacted bytes at which compaction starts.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _log(
        "min.compaction.lag.ms",
        _long(0),
        "Records younger than this are not compacted.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    TopicSetting(
        "min.insync.replicas",
        _int(1),
        "1",
        "Replicas that must be in sync for a produce with acks=all to be accepted.",
        "min.insync.replicas",
    ),
    TopicSetting(
        "mirror.keys",
        Form(SettingKind.STRING),
        "",
        "With `mirror.source`: the keys whose records the mirror has, separated by commas, `*` at the end for all that "
        "begin so; empty for all records. The pipe that makes a mirror sets it, and it cannot be changed.",
    ),
    TopicSetting(
        "mirror.source",
        Form(SettingKind.STRING),
        "",
        "The id of the topic of a parent that this one mirrors: clients cannot write to it. The pipe that makes a "
        "mirror sets it, and it cannot be changed.",
    ),
    _idle(
        "preallocate",
        _BOOLEAN,
        "false",
        "Whether segments get their full size when they are begun; ours grow as they are written.",
        "log.preallocate",
    ),
    _idle(
        "remote.log.copy.disable",
        _BOOLEAN,
        "false",
        "Whether a topic in tiered storage, which there is none of, takes no more data there.",
    ),
    _idle(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        "false",
        "Whether tiered data, which there is none of, goes when tiered storage is switched off.",
    ),
    _idle(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        "Whether a topic is in tiered storage; there is none, and `true` is refused.",
    ),
    _log(
        "retention.bytes",
        _long(-1),
        "The oldest segments are deleted while the partition is larger than this; -1 for no limit.",
        "log.retention.bytes",
    ),
    _log(
        "retention.ms",
        _long(-1),
        "Segments whose newest record is older than this are deleted; -1 retains them for ever.",
        "log.retention.ms",
    ),
    _log(
        "segment.bytes",
        _int(14),
        "A segment is closed before it would grow beyond this (Kafka refuses less than 1 MiB).",
        "log.segment.bytes",
    ),
    _idle(
        "segment.index.bytes",
        _int(4),
        "10485760",
        "Size of an index; ours grow with their segments.",
        "log.index.size.max.bytes",
    ),
    _idle(
        "segment.jitter.ms",
        _long(0),
        "0",
        "Chance by which segments are closed early; compaction and retention are spread out otherwise.",
        "log.roll.jitter.ms",
    ),
    _log(
        "segment.ms",
        _long(1),
        "A segment is closed when its first record is this old, full or not.",
        "log.roll.ms",
    ),
    TopicSetting(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        "Whether a replica that is not in sync may lead when no other is left, at the price of what it lacks.",
        "unclean.leader.election.enable",
    ),
    TopicSetting(
        "up.bytes.max",
        _long(64 * 1024),
        str(_UP_BYTES_MAX),
        "With `up.target`: bytes that may wait in a partition for the parent; then appends wait, and fail.",
    ),
    TopicSetting(
        "up.on.mismatch",
        Form(SettingKind.STRING, choices=("stop", "resend")),
        "stop",
        "With `up.target`: what to do where the parent's topic was made again, or its mark does not fit: `stop`, or "
        "`resend` what is still here.",
    ),
    TopicSetting(
        "up.target",
        Form(SettingKind.STRING),
        "",
        "The parent's topic that records go up to, each exactly once. They stay here until the parent has them, "
        "whatever retention says, and go then.",
    ),
    TopicSetting(
        "up.wait.ms",
        Form(SettingKind.INT, 0, 600_000),
        str(_UP_WAIT_MS),
        "With `up.target`: how long an append to a full outbox waits for room before it fails with an error after "
        "which producers try again; 0 fails at once.",
    ),
    TopicSetting(
        "value.format",
        Form(SettingKind.STRING, choices=("", "avro", "protobuf")),
        "",
        "How values are written, for those who look at them (search, live tail, console): `avro` or `protobuf`. "
        "Brokers store any bytes.",
    ),
    TopicSetting(
        "value.framing",
        Form(SettingKind.STRING, choices=("none", "confluent")),
        "none",
        "With `value.format`: `confluent` where values begin with the prefix of a schema registry.",
    ),
    TopicSetting(
        "value.message",
        Form(SettingKind.STRING),
        "",
        "With `value.format` protobuf: the message, where the descriptor has several.",
    ),
    TopicSetting(
        "value.schema",
        Form(SettingKind.STRING),
        "",
        "With `value.format`: the schema of Avro as JSON, or the base64 of a file descriptor set of Protobuf.",
    ),
)

TOPIC_SETTINGS: Mapping[str, TopicSetting] = {row.name: row for row in _ROWS}
"""By name, in the order of names."""
_OF_LOG = frozenset(LogSettings.__struct_encode_fields__)


class TopicSettings(Struct, frozen=True):
    """One topic's settings, parsed: those of its logs, and those that the broker uses."""

    log: LogSettings
    min_insync_replicas: int
    consume_groups: tuple[str, ...] = ()
    """The share groups that must be past a record before `cleanup.policy=consume` deletes it."""
    unclean_leader_election_enable: bool = False
    mirror_source: str = ""
    """The id of the parent's topic that this one mirrors; empty where clients write to it."""
    up_target: str = ""
    """The parent's topic that this one is an outbox for; empty where it is none."""
    up_bytes_max: int = _UP_BYTES_MAX
    up_wait_ms: int = _UP_WAIT_MS
    is_resent: bool = False
    """Whether records go up again where the parent's mark does not fit."""


def parse(overrides: Mapping[str, str]) -> TopicSettings:
    """A topic's overrides, and defaults for the rest; raises `InvalidSettingError` in Kafka's words."""
    known = {name: _setting(name).form.normalize(name, value) for name, value in overrides.items()}
    if known.get("remote.storage.enable") == "true":
        raise InvalidSettingError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    log = LogSettings.parse({name: value for name, value in known.items() if name in _OF_LOG})
    if log.min_compaction_lag_ms > log.max_compaction_lag_ms:
        raise InvalidSettingError(
            f"conflict topic config setting min.compaction.lag.ms ({log.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({log.max_compaction_lag_ms})"
        )
    consume_groups = tuple(name for name in known.get("consume.groups", "").split(",") if name)
    if log.is_consumed and not consume_groups:
        raise InvalidSettingError(
            "cleanup.policy=consume needs consume.groups: name the share groups that must be past a record"
        )
    if known.get("value.format"):
        _check_value_format(known)
    up_bytes_max = int(known.get("up.bytes.max", str(_UP_BYTES_MAX)))
    if known.get("up.target"):
        log = _of_outbox(log, known, up_bytes_max)
    if known.get("mirror.keys") and not known.get("mirror.source"):
        raise InvalidSettingError("mirror.keys is for mirrors, which the pipe to a parent makes")
    is_unclean_allowed = known.get("unclean.leader.election.enable") == "true"
    return TopicSettings(
        log,
        int(known.get("min.insync.replicas", "1")),
        consume_groups,
        is_unclean_allowed,
        known.get("mirror.source", ""),
        known.get("up.target", ""),
        up_bytes_max,
        int(known.get("up.wait.ms", str(_UP_WAIT_MS))),
        known.get("up.on.mismatch") == "resend",
    )


def _check_value_format(known: Mapping[str, str]) -> None:
    """Refuse a schema that values could never be read by."""
    from qanat.wire.value_formats import ValueFormat, value_reader

    form = ValueFormat.of_settings(known)
    assert form is not None, "it is named"
    if not form.schema.strip():
        raise InvalidSettingError(f"value.format={form.format} needs value.schema")
    try:
        value_reader(form)
    except MalformedMessageError as fault:
        raise InvalidSettingError(f"Invalid value for configuration value.schema: {fault}") from None


def _of_outbox(log: LogSettings, known: Mapping[str, str], bytes_max: int) -> LogSettings:
    """Only the parent's acknowledgement deletes from an outbox, and nothing of it goes up that a crash could lose."""
    target = known["up.target"]
    if is_for_brokers(target, target.startswith("__")) or name_problem(target) is not None:
        raise InvalidSettingError(f"up.target {target!r} is no topic that clients write to")
    if known.get("mirror.source"):
        raise InvalidSettingError("a mirror is read-only: up.target is for topics that clients write to")
    if log.cleanup_policy is not CleanupPolicy.DELETE:
        raise InvalidSettingError(
            f"cleanup.policy={log.cleanup_policy.value} would delete records before the parent has them: a topic with "
            "up.target has cleanup.policy=delete"
        )
    segment_bytes = min(log.segment_bytes, max(bytes_max // _UP_SEGMENTS, _UP_SEGMENT_BYTES_MIN))
    return replace(log, retention_ms=-1, retention_bytes=-1, flush_messages=1, segment_bytes=segment_bytes)


def _setting(name: str) -> TopicSetting:
    found = TOPIC_SETTINGS.get(name)
    if found is None:
        hint = did_you_mean(name, TOPIC_SETTINGS)
        raise InvalidSettingError(f"Unknown topic config name: {name}{hint}")
    return found


def page() -> str:
    """The documentation's table of all settings."""
    lines = [
        "# Topic settings",
        "",
        "Kafka's names; set them when a topic is created or with any tool that alters configurations. A change takes",
        "effect at once. Settings without an effect are accepted and remembered, so that scripts made for Kafka run.",
        "",
        "| setting | type | default | effect here | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in _ROWS:
        default = "never" if row.default == str(LONG_MAX) else row.default
        shown = f"`{default}`" if default else ""
        effect = "yes" if row.has_effect else "none"
        lines.append(f"| `{row.name}` | {row.form.kind.name.lower()} | {shown} | {effect} | {row.meaning} |")
    return "\n".join([*lines, ""])
