"""Records as bytes: Kafka's layouts, every version that may be in a log, and kinds of other owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.groups.consumer.records import (
    ClassicMembership,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerTombstone,
    CurrentAssignmentRecord,
    ExpressionRecord,
    MemberState,
    RecordKind,
    TargetAssignmentRecord,
    TargetEpochRecord,
    TopicIdPartition,
)
from qanat.groups.record_codec import decode_record, encode_record
from qanat.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetTombstone,
)
from qanat.groups.share.records import (
    ShareCurrentRecord,
    SharedTopic,
    ShareGroupRecord,
    ShareGroupTombstone,
    ShareMemberRecord,
    ShareRecordKind,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    ShareTopicsRecord,
)
from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.messages import consumer_offsets as wire
from qanat.wire.kafka.records import CONSUMER_OFFSETS, write_value

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=20)
MEMBERS = st.builds(
    MemberMetadata, NAMES, st.none() | NAMES, NAMES, NAMES, INT32, INT32, st.binary(max_size=9), st.binary(max_size=9)
)
GROUPS = st.builds(
    GroupMetadataRecord, NAMES, NAMES, INT32, st.none() | NAMES, st.none() | NAMES, INT64, st.lists(MEMBERS).map(tuple)
)
OFFSETS = st.builds(OffsetCommitRecord, NAMES, NAMES, INT32, INT64, INT32, NAMES, INT64)
PARTITIONS = st.lists(st.builds(TopicIdPartition, st.binary(min_size=16, max_size=16), INT32), max_size=5, unique=True)
IN_ORDER = PARTITIONS.map(lambda found: tuple(sorted(found)))
CLASSIC = st.builds(ClassicMembership, INT32, st.lists(st.tuples(NAMES, st.binary(max_size=9)), max_size=3).map(tuple))
TOPICS = st.lists(NAMES, max_size=3).map(tuple)
CONSUMERS = st.one_of(
    st.builds(ConsumerGroupRecord, NAMES, INT32, INT64),
    st.builds(
        ConsumerMemberRecord,
        NAMES,
        NAMES,
        st.none() | NAMES,
        st.none() | NAMES,
        NAMES,
        NAMES,
        TOPICS,
        NAMES,
        INT32,
        st.none() | NAMES,
        st.none() | CLASSIC,
    ),
    st.builds(TargetEpochRecord, NAMES, INT32),
    st.builds(TargetAssignmentRecord, NAMES, NAMES, IN_ORDER),
    st.builds(CurrentAssignmentRecord, NAMES, NAMES, INT32, INT32, st.sampled_from(MemberState), IN_ORDER, IN_ORDER),
    st.builds(ExpressionRecord, NAMES, NAMES, TOPICS, INT64, INT64),
    st.builds(ConsumerTombstone, NAMES, st.sampled_from([RecordKind.GROUP, RecordKind.TARGET_EPOCH])),
    st.builds(ConsumerTombstone, NAMES, st.sampled_from([RecordKind.MEMBER, RecordKind.EXPRESSION]), NAMES),
)
SHARED = st.lists(
    st.builds(SharedTopic, st.binary(min_size=16, max_size=16), NAMES, st.just((0, 1, 7))),
    max_size=3,
    unique_by=lambda one: one.topic_id,
).map(lambda topics: tuple(sorted(topics, key=lambda one: (one.name, one.topic_id))))
SHARES = st.one_of(
    st.builds(ShareGroupRecord, NAMES, INT32, INT64),
    st.builds(ShareMemberRecord, NAMES, NAMES, st.none() | NAMES, NAMES, NAMES, TOPICS),
    st.builds(ShareTargetEpochRecord, NAMES, INT32),
    st.builds(ShareTargetRecord, NAMES, NAMES, IN_ORDER),
    st.builds(ShareCurrentRecord, NAMES, NAMES, INT32, INT32, IN_ORDER),
    st.builds(ShareTopicsRecord, NAMES, SHARED),
    st.builds(ShareGroupTombstone, NAMES, st.sampled_from([ShareRecordKind.GROUP, ShareRecordKind.TOPICS])),
    st.builds(ShareGroupTombstone, NAMES, st.just(ShareRecordKind.MEMBER), NAMES),
)
TOMBSTONES = st.builds(GroupTombstone, NAMES) | st.builds(OffsetTombstone, NAMES, NAMES, INT32)


@given(GROUPS | OFFSETS | TOMBSTONES | CONSUMERS | SHARES)
def test_a_record_survives_its_bytes(record: GroupRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_an_offset_lies_in_the_log_as_kafka_writes_it() -> None:
    key, value = encode_record(OffsetCommitRecord("g", "t", 3, 42, 7, "m", 1000))
    assert key.hex() == "000100016700017400000003"
    assert value is not None
    assert value.hex() == "0003000000000000002a0000000700016d00000000000003e8"


def test_a_group_lies_in_the_log_as_kafka_writes_it() -> None:
    member = MemberMetadata("m", None, "c", "h", 5, 6, b"s", b"a")
    key, value = encode_record(GroupMetadataRecord("g", "consumer", 1, "range", "m", 9, (member,)))
    assert key == b"\x00\x02\x00\x01g"
    assert value == (
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x01\x00\x05range\x00\x01m\x00\x00\x00\x00\x00\x00\x00\x09"
        b"\x00\x00\x00\x01\x00\x01m\xff\xff\x00\x01c\x00\x01h\x00\x00\x00\x05\x00\x00\x00\x06"
        b"\x00\x00\x00\x01s\x00\x00\x00\x01a"
    )


def test_a_retention_that_the_client_chose_is_kept() -> None:
    record = OffsetCommitRecord("g", "t", 0, 1, commit_timestamp_ms=5, expire_timestamp_ms=9)
    assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_both_values_is_read(version: int) -> None:
    offset = write_value(CONSUMER_OFFSETS, 1, wire.OffsetCommitValue(42, metadata="m", commit_timestamp=5), version)
    assert decode_record(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", offset) == OffsetCommitRecord(
        "g", "t", 0, 42, -1, "m", 5
    )
    value = wire.GroupMetadataValue("consumer", 3, "range", "m", members=[wire.MemberMetadata("m", session_timeout=6)])
    group = decode_record(b"\x00\x02\x00\x01g", write_value(CONSUMER_OFFSETS, 2, value, version))
    assert isinstance(group, GroupMetadataRecord)
    assert (group.generation_id, group.leader_id, group.members[0].session_timeout_ms) == (3, "m", 6)


def test_the_oldest_key_of_an_offset_is_read() -> None:
    assert decode_record(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x00", None) == OffsetTombstone("g", "t", 0)


@pytest.mark.parametrize("key", [b"\x00\x04\x00\x01g", b"\x00\x63whatever"])
def test_kinds_of_others_and_of_later_kafkas_are_passed_over(key: bytes) -> None:
    assert decode_record(key, b"anything") is None


def test_a_state_of_a_later_kafka_is_one_that_a_heartbeat_leads_out_of() -> None:
    value = write_value(CONSUMER_OFFSETS, 8, wire.ConsumerGroupCurrentMemberAssignmentValue(3, 2, 127))
    record = decode_record(b"\x00\x08\x00\x01g\x00\x01m", value)
    assert record == CurrentAssignmentRecord("g", "m", 3, 2, MemberState.UNRELEASED)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_record_are_one_kind_of_fault(value: bytes) -> None:
    for key in (b"\x00\x02\x00\x01g", b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"):
        try:
            decode_record(key, value)
        except MalformedMessageError:
            continue
