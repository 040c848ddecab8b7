from __future__ import annotations

from pathlib import Path

import pytest

from qanat.broker.settings.setting_kinds import Form, SettingKind
from qanat.broker.settings.topic_settings import TOPIC_SETTINGS, page, parse
from qanat.log.settings import CleanupPolicy, LogSettings
from qanat.model.errors import InvalidSettingError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating" / "topic-settings.md"

# What Apache Kafka 4.1 lists for a topic: name, number of the type, name of the broker's default.
OF_KAFKA = {
    "cleanup.policy": (7, "log.cleanup.policy"),
    "compression.gzip.level": (3, "compression.gzip.level"),
    "compression.lz4.level": (3, "compression.lz4.level"),
    "compression.type": (2, "compression.type"),
    "compression.zstd.level": (3, "compression.zstd.level"),
    "delete.retention.ms": (5, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": (5, "log.segment.delete.delay.ms"),
    "flush.messages": (5, "log.flush.interval.messages"),
    "flush.ms": (5, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": (7, None),
    "index.interval.bytes": (3, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": (7, None),
    "local.retention.bytes": (5, "log.local.retention.bytes"),
    "local.retention.ms": (5, "log.local.retention.ms"),
    "max.compaction.lag.ms": (5, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": (3, "message.max.bytes"),
    "message.timestamp.after.max.ms": (5, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": (5, "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": (2, "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": (6, "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": (5, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": (3, "min.insync.replicas"),
    "preallocate": (1, "log.preallocate"),
    "remote.log.copy.disable": (1, None),
    "remote.log.delete.on.disable": (1, None),
    "remote.storage.enable": (1, None),
    "retention.bytes": (5, "log.retention.bytes"),
    "retention.ms": (5, "log.retention.ms"),
    "segment.bytes": (3, "log.segment.bytes"),
    "segment.index.bytes": (3, "log.index.size.max.bytes"),
    "segment.jitter.ms": (5, "log.roll.jitter.ms"),
    "segment.ms": (5, "log.roll.ms"),
    "unclean.leader.election.enable": (1, "unclean.leader.election.enable"),
}

OF_QANAT: dict[str, tuple[int, str | None]] = {
    "consume.groups": (7, None),
    "mirror.keys": (2, None),
    "mirror.source": (2, None),
    "up.bytes.max": (5, None),
    "up.on.mismatch": (2, None),
    "up.target": (2, None),
    "up.wait.ms": (3, None),
    "value.format": (2, None),
    "value.framing": (2, None),
    "value.message": (2, None),
    "value.schema": (2, None),
}


def test_the_table_has_what_kafka_has_in_the_order_of_names() -> None:
    ours = {name: (int(row.form.kind), row.broker_name) for name, row in TOPIC_SETTINGS.items()}

    assert ours == {**OF_KAFKA, **OF_QANAT}
    assert list(ours) == sorted(ours)


def test_every_setting_of_a_log_is_in_the_table_with_the_logs_default() -> None:
    everything = {name: row.default for name, row in TOPIC_SETTINGS.items()}

    assert set(LogSettings.__struct_encode_fields__) <= set(TOPIC_SETTINGS)
    assert parse(everything) == parse({})
    assert parse({}).log == LogSettings()


def test_the_page_in_the_documentation_is_what_the_table_says() -> None:
    expected = "python -c 'from qanat.broker.settings.topic_settings import page; print(page(), end=\"\")'"

    assert PAGE.read_text() == page(), f"write it anew: {expected} > {PAGE.name}"


def test_values_are_read_as_kafka_reads_them() -> None:
    settings = parse(
        {
            "retention.ms": " 5 ",
            "cleanup.policy": "delete, compact,delete",
            "preallocate": "TRUE",
            "min.insync.replicas": "2",
            "compression.gzip.level": "-1",
            "leader.replication.throttled.replicas": "0:1,1:1",
            "follower.replication.throttled.replicas": "*",
        }
    )

    assert settings.log.retention_ms == 5
    assert settings.log.cleanup_policy is CleanupPolicy.BOTH
    assert settings.min_insync_replicas == 2


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("retention.msec", "1", "Unknown topic config name: retention.msec; did you mean retention.ms?"),
        ("message.downconversion.enable", "true", "Unknown topic config name: message.downconversion.enable"),
        ("segment.bytes", "x", "Invalid value x for configuration segment.bytes: Not a number of type INT"),
        ("segment.bytes", "9999999999", "Not a number of type INT"),
        ("segment.jitter.ms", "1_0", "Not a number of type LONG"),
        ("segment.bytes", "0", "Value must be at least 14"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "2", "Invalid value 2.0 for configuration"),
        ("min.cleanable.dirty.ratio", "nan", "Value must be at least 0"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("cleanup.policy", "burn", "String must be one of: compact, delete"),
        ("cleanup.policy", "", "At least one is needed of: compact, delete"),
        ("compression.type", "none", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
        ("leader.replication.throttled.replicas", "x", "must be the literal '*' or a list of replicas"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "-200000", "Value must be at least -131072"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("local.retention.ms", "-3", "Value must be at least -2"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker."),
        ("flush.messages", "0", "Value must be at least 1"),
    ],
)
def test_a_wrong_value_is_refused_in_kafkas_words(name: str, value: str, sentence: str) -> None:
    with pytest.raises(InvalidSettingError) as refused:
        parse({name: value})

    assert sentence in str(refused.value)


def test_lags_of_compaction_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"min.compaction.lag.ms \(10\) > max.compaction.lag.ms \(5\)"):
        parse({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_a_form_gives_values_one_spelling() -> None:
    assert Form(SettingKind.BOOLEAN).normalize("x", " True ") == "true"
    assert Form(SettingKind.LIST).normalize("x", "b, a,,b") == "b,a"
    assert Form(SettingKind.INT, 1).normalize("x", " 7") == "7"


def test_records_go_by_consumption_alone_or_by_age_as_well() -> None:
    alone = parse({"cleanup.policy": "consume", "consume.groups": "workers, auditors"})
    assert (alone.log.is_consumed, alone.log.is_expired, alone.log.is_compacted) == (True, False, False)
    assert alone.consume_groups == ("workers", "auditors")
    both = parse({"cleanup.policy": "delete,consume", "consume.groups": "workers"}).log
    assert (both.is_consumed, both.is_expired, both.is_compacted) == (True, True, False)


@pytest.mark.parametrize(
    "overrides",
    [{"cleanup.policy": "consume"}, {"cleanup.policy": "compact,consume", "consume.groups": "g"}],
    ids=["whose", "not with compaction"],
)
def test_consumption_that_cannot_be_is_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(InvalidSettingError):
        parse(overrides)
