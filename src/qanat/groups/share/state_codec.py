"""Records of the ledger as key and value bytes in `__share_group_state`: Kafka's own.

Kinds of record of a later Kafka decode to None.
"""

from __future__ import annotations

from qanat.groups.share.record_states import StateBatch
from qanat.groups.share.state_records import LedgerRecord, ShareKey, ShareSnapshot, ShareTombstone, ShareUpdate
from qanat.wire.kafka.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    SnapshotStateBatch,
    UpdateStateBatch,
)
from qanat.wire.kafka.records import SHARE_STATE, read_key, read_value, write_key, write_value

_SNAPSHOT, _UPDATE = 0, 1


def encode_record(record: LedgerRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    if isinstance(record, ShareUpdate):
        update = ShareUpdateValue(
            record.snapshot_epoch,
            record.leader_epoch,
            record.start_offset,
            [UpdateStateBatch(*batch) for batch in record.batches],
        )
        return write_key(SHARE_STATE, ShareUpdateKey(*record.key)), write_value(SHARE_STATE, _UPDATE, update)
    key = write_key(SHARE_STATE, ShareSnapshotKey(*record.key))
    if isinstance(record, ShareTombstone):
        return key, None
    snapshot = ShareSnapshotValue(
        record.snapshot_epoch,
        record.state_epoch,
        record.leader_epoch,
        record.start_offset,
        record.created_ms,
        record.written_ms,
        [SnapshotStateBatch(*batch) for batch in record.batches],
    )
    return key, write_value(SHARE_STATE, _SNAPSHOT, snapshot)


def decode_record(key: bytes, value: bytes | None) -> LedgerRecord | None:
    """A record from its bytes; None for unknown kinds."""
    kind, fields = read_key(SHARE_STATE, key)
    if kind not in (_SNAPSHOT, _UPDATE):
        return None
    of = ShareKey(fields.group_id, bytes(fields.topic_id), fields.partition)
    if value is None:
        return ShareTombstone(of)
    content = read_value(SHARE_STATE, kind, value)
    batches = tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in content.state_batches
    )
    if kind == _UPDATE:
        return ShareUpdate(of, content.snapshot_epoch, content.leader_epoch, content.start_offset, batches)
    return ShareSnapshot(
        of,
        content.snapshot_epoch,
        content.state_epoch,
        content.leader_epoch,
        content.start_offset,
        batches,
        content.create_timestamp,
        content.write_timestamp,
    )
