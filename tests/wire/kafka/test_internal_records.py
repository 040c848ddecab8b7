"""Records of the internal topics: Kafka's bytes, both ways."""

from __future__ import annotations

import pytest

from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.messages.consumer_offsets import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from qanat.wire.kafka.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from qanat.wire.kafka.records import (
    CONSUMER_OFFSETS,
    SHARE_STATE,
    TRANSACTION_STATE,
    RecordTopic,
    read_key,
    read_value,
    write_key,
    write_value,
)


def test_the_bytes_of_a_committed_offset() -> None:
    key = write_key(CONSUMER_OFFSETS, OffsetCommitKey("g", "t", 3))
    value = write_value(CONSUMER_OFFSETS, 1, OffsetCommitValue(5, 7, "m", 9))

    assert key == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    assert value == b"\0\x04" + (5).to_bytes(8, "big") + b"\0\0\0\x07\x02m" + (9).to_bytes(8, "big") + b"\0"
    assert read_key(CONSUMER_OFFSETS, key) == (1, OffsetCommitKey("g", "t", 3))
    assert read_value(CONSUMER_OFFSETS, 1, value) == OffsetCommitValue(5, 7, "m", 9)


@pytest.mark.parametrize("version", range(5))
def test_older_versions_of_a_value_are_read_with_defaults_for_what_they_lack(version: int) -> None:
    raw = write_value(CONSUMER_OFFSETS, 1, OffsetCommitValue(5, 7, "m", 9, 11, b"i" * 16), version)

    value = read_value(CONSUMER_OFFSETS, 1, raw)

    assert (value.offset, value.metadata, value.commit_timestamp) == (5, "m", 9)
    assert value.leader_epoch == (7 if version >= 3 else -1)
    assert value.expire_timestamp == (11 if version == 1 else -1)
    assert value.topic_id == (b"i" * 16 if version >= 4 else bytes(16))


@pytest.mark.parametrize("version", range(5))
def test_a_classic_group_comes_back(version: int) -> None:
    member = MemberMetadata("m-1", None, "client", "/127.0.0.1", 300_000, 10_000, b"subscription", b"assignment")
    group = GroupMetadataValue("consumer", 4, "range", None, 1_700_000_000_000, [member])

    value = read_value(CONSUMER_OFFSETS, 2, write_value(CONSUMER_OFFSETS, 2, group, version))

    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 4, "range", None)
    assert value.members[0].assignment == b"assignment"
    assert value.members[0].rebalance_timeout == (300_000 if version >= 1 else -1)
    assert write_key(CONSUMER_OFFSETS, GroupMetadataKey("g")) == b"\0\x02\0\x01g"


def test_a_nullable_struct_in_a_tagged_field_has_its_marker() -> None:
    classic = ClassicMemberMetadata(5, [ClassicProtocol("range", b"x")])
    member = ConsumerGroupMemberMetadataValue(client_id="c", classic_member_metadata=classic)
    raw = write_value(CONSUMER_OFFSETS, 5, member)

    assert raw.endswith(b"\x01\x00\x10\x01\0\0\0\x05\x02\x06range\x02x\0\0")
    assert read_value(CONSUMER_OFFSETS, 5, raw) == member


@pytest.mark.parametrize("version", range(2))
def test_a_transaction_comes_back(version: int) -> None:
    transaction = TransactionLogValue(9, 1, 60_000, 1, [PartitionsSchema("t", [0, 2])], 5, 4)
    if version:
        transaction.next_producer_id = 10
    raw = write_value(TRANSACTION_STATE, 0, transaction, version)

    assert read_value(TRANSACTION_STATE, 0, raw) == transaction
    assert write_key(TRANSACTION_STATE, TransactionLogKey("id")) == b"\0\0\0\x02id"


def test_a_kind_of_a_later_kafka_has_no_key_and_is_no_fault() -> None:
    assert read_key(CONSUMER_OFFSETS, b"\0\x63whatever") == (99, None)


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\x05" + bytes(40), b"\xff\xff" + bytes(40), b"\0\x04\0"])
def test_a_value_that_is_cut_off_or_of_an_unknown_version_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_value(CONSUMER_OFFSETS, 1, raw)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_STATE], ids=lambda topic: topic.module)
def test_every_kind_of_record_has_both_parts(topic: RecordTopic) -> None:
    for kind, (key, value, newest) in topic.kinds.items():
        key_class = getattr(topic.codec, key.title().replace("_", ""))
        value_class = getattr(topic.codec, value.title().replace("_", ""))
        assert read_key(topic, write_key(topic, key_class())) == (kind, key_class())
        for version in range(newest + 1):
            assert read_value(topic, kind, write_value(topic, kind, value_class(), version)) == value_class()
