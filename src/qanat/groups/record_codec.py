"""Records of the ledger as key and value bytes in `__consumer_offsets`.

Versions are those that Kafka 2.1 and later read: offsets in 3, or in 1 where
the client chose the retention itself; groups in 3. Everything back to 0 is
read. Groups of the new protocol are in `consumer.record_codec`, share groups in
`share.record_codec`. Kinds of record that belong to others (streams groups) or to a
later Kafka decode to None.
"""

from __future__ import annotations

from qanat.groups.consumer import record_codec as consumer_codec
from qanat.groups.consumer.records import ConsumerRecord, RecordKind
from qanat.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetTombstone,
)
from qanat.groups.share import record_codec as share_codec
from qanat.groups.share.records import ShareRecordKind
from qanat.model.ids import NO_TIMESTAMP
from qanat.wire.kafka.messages import consumer_offsets as wire
from qanat.wire.kafka.records import CONSUMER_OFFSETS, read_key, read_value, write_key, write_value

_OFFSET_COMMIT_KIND = 1
_GROUP_METADATA_KIND = 2
_OFFSET_VERSION = 3
_OFFSET_VERSION_WITH_EXPIRY = 1
_GROUP_VERSION = 3
_OLDEST_OFFSET_KEY = b"\x00\x00"
_OFFSET_KEY = b"\x00\x01"


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    match record:
        case OffsetCommitRecord():
            return _offset_key(record), _offset_value(record)
        case OffsetTombstone():
            return _offset_key(record), None
        case GroupMetadataRecord():
            return _group_key(record.group_id), _group_value(record)
        case GroupTombstone():
            return _group_key(record.group_id), None
        case _ if isinstance(record, ConsumerRecord):
            return consumer_codec.encode(record)
        case _:
            return share_codec.encode(record)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """A record from its bytes; None for kinds of other owners."""
    if key[:2] == _OLDEST_OFFSET_KEY:
        key = _OFFSET_KEY + key[2:]  # The same fields, by Kafka 0.8.
    kind, fields = read_key(CONSUMER_OFFSETS, key)
    if kind == _OFFSET_COMMIT_KIND:
        if value is None:
            return OffsetTombstone(fields.group, fields.topic, fields.partition)
        return _offset_record(fields, read_value(CONSUMER_OFFSETS, kind, value))
    if kind == _GROUP_METADATA_KIND:
        if value is None:
            return GroupTombstone(fields.group)
        return _group_record(fields.group, read_value(CONSUMER_OFFSETS, kind, value))
    if share_codec.is_ours(kind):
        return share_codec.decode(ShareRecordKind(kind), fields, value)
    return consumer_codec.decode(RecordKind(kind), fields, value) if consumer_codec.is_ours(kind) else None


def _offset_key(record: OffsetCommitRecord | OffsetTombstone) -> bytes:
    return write_key(CONSUMER_OFFSETS, wire.OffsetCommitKey(record.group_id, record.topic, record.partition))


def _offset_value(record: OffsetCommitRecord) -> bytes:
    value = wire.OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
    )
    has_expiry = record.expire_timestamp_ms != NO_TIMESTAMP
    version = _OFFSET_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VERSION
    return write_value(CONSUMER_OFFSETS, _OFFSET_COMMIT_KIND, value, version)


def _offset_record(key: wire.OffsetCommitKey, value: wire.OffsetCommitValue) -> OffsetCommitRecord:
    return OffsetCommitRecord(
        key.group,
        key.topic,
        key.partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
    )


def _group_key(group_id: str) -> bytes:
    return write_key(CONSUMER_OFFSETS, wire.GroupMetadataKey(group_id))


def _group_value(record: GroupMetadataRecord) -> bytes:
    value = wire.GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation_id,
        protocol=record.protocol_name,
        leader=record.leader_id,
        current_state_timestamp=record.state_timestamp_ms,
        members=[_wire_member(member) for member in record.members],
    )
    return write_value(CONSUMER_OFFSETS, _GROUP_METADATA_KIND, value, _GROUP_VERSION)


def _wire_member(member: MemberMetadata) -> wire.MemberMetadata:
    return wire.MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def _group_record(group_id: str, value: wire.GroupMetadataValue) -> GroupMetadataRecord:
    return GroupMetadataRecord(
        group_id,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        tuple(_member(member) for member in value.members),
    )


def _member(member: wire.MemberMetadata) -> MemberMetadata:
    return MemberMetadata(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout,
        member.session_timeout,
        bytes(member.subscription),
        bytes(member.assignment),
    )
