"""Topic settings: Kafka's names and spellings in, one clear sentence out where something is wrong."""

from __future__ import annotations

import pytest

from qanat.log.settings import (
    NEVER_MS,
    CleanupPolicy,
    CompressionType,
    DirectorySettings,
    LogSettings,
    TimestampType,
)
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError


def test_settings_are_given_by_kafkas_names_as_strings() -> None:
    settings = LogSettings.parse(
        {
            "segment.bytes": "1048576",
            "retention.ms": "-1",
            "cleanup.policy": "compact",
            "compression.type": "zstd",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": "0.25",
            "max.message.bytes": 5,
        }
    )
    assert settings.segment_bytes == 1_048_576
    assert settings.retention_ms == -1
    assert settings.cleanup_policy is CleanupPolicy.COMPACT
    assert settings.compression_type is CompressionType.ZSTD
    assert settings.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert settings.min_cleanable_dirty_ratio == 0.25
    assert settings.max_message_bytes == 5


def test_nothing_given_means_the_defaults() -> None:
    assert LogSettings.parse({}) == LogSettings()
    assert DirectorySettings.parse({}) == DirectorySettings()


@pytest.mark.parametrize("policy", ["compact,delete", "delete,compact", "compact, delete", " delete , compact "])
def test_both_policies_are_accepted_in_either_order_and_with_spaces(policy: str) -> None:
    settings = LogSettings.parse({"cleanup.policy": policy})
    assert settings.cleanup_policy is CleanupPolicy.BOTH
    assert settings.is_compacted
    assert settings.is_expired


@pytest.mark.parametrize(("policy", "is_compacted", "is_expired"), [("delete", False, True), ("compact", True, False)])
def test_one_policy_does_not_imply_the_other(policy: str, is_compacted: bool, is_expired: bool) -> None:
    settings = LogSettings.parse({"cleanup.policy": policy})
    assert (settings.is_compacted, settings.is_expired) == (is_compacted, is_expired)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("retention.hours", "retention.ms"),
        ("segment.byte", "segment.bytes"),
        ("cleanup.polcy", "cleanup.policy"),
        ("segment_bytes", "segment.bytes"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(wrong: str, right: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"unknown setting '{wrong}'.*{right}") as caught:
        LogSettings.parse({wrong: "1"})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_name_like_no_other_is_refused_with_the_list_of_all() -> None:
    with pytest.raises(InvalidSettingError, match=r"known are segment\.bytes, .*delete\.retention\.ms"):
        LogSettings.parse({"qqq": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", str(2**31)),
        ("segment.bytes", "many"),
        ("segment.ms", "0"),
        ("retention.ms", "-2"),
        ("retention.bytes", "-2"),
        ("max.message.bytes", "-1"),
        ("flush.messages", "0"),
        ("index.interval.bytes", "-1"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("max.compaction.lag.ms", "0"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,shred"),
        ("compression.type", "brotli"),
        ("message.timestamp.type", "createtime"),
    ],
)
def test_a_bad_value_is_refused_naming_the_setting_and_the_value(name: str, value: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        LogSettings.parse({"retention.ms": "1000", name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("segment.bytes", 14), ("segment.bytes", 2**31 - 1), ("retention.bytes", -1), ("flush.messages", NEVER_MS)],
)
def test_values_at_the_bounds_are_accepted(name: str, value: int) -> None:
    assert getattr(LogSettings.parse({name: value}), name.replace(".", "_")) == value


def test_flushing_is_off_only_where_both_ways_are_off() -> None:
    assert LogSettings().is_flushed
    assert LogSettings(flush_messages=NEVER_MS, flush_ms=1000).is_flushed
    assert not LogSettings(flush_messages=NEVER_MS).is_flushed


def test_a_directory_has_settings_of_its_own() -> None:
    assert DirectorySettings.parse({"log.cleaner.dedupe.buffer.size": "2048"}).log_cleaner_dedupe_buffer_size == 2048
    with pytest.raises(InvalidSettingError, match=r"log\.cleaner\.dedupe\.buffer\.size = '1'"):
        DirectorySettings.parse({"log.cleaner.dedupe.buffer.size": "1"})
