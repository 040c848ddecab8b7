"""Producer snapshots: `<offset>.snapshot` holds the producer state just before that offset.

Kafka's format, version 1. Where Kafka writes a producer's last batch only, we
write an entry for each of its last five, oldest first: Kafka's reader uses
the last entry of a producer, ours uses all, so that it still recognises duplicates
after a restart. A snapshot that is missing, torn or damaged is rebuilt from the log.
"""

from __future__ import annotations

from struct import Struct, error

from qanat.log.producers import BATCHES_REMEMBERED, Producers, ProducerState, WrittenBatch
from qanat.model.ids import NO_OFFSET, NO_SEQUENCE
from qanat.wire.crc import crc32c

_VERSION = 1
_PREAMBLE = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_NO_BATCH = WrittenBatch(NO_SEQUENCE, NO_OFFSET, 0)


def encode_snapshot(producers: Producers) -> bytes:
    """The file's content."""
    entries = [
        _ENTRY.pack(
            producer_id,
            state.epoch,
            *batch,
            state.last_used_ms,
            state.coordinator_epoch,
            state.transaction_first_offset,
        )
        for producer_id, state in producers.states.items()
        for batch in state.batches or (_NO_BATCH,)
    ]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREAMBLE.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> Producers | None:
    """The producers, or None where the file is damaged."""
    body = content[_PREAMBLE.size :]
    try:
        version, checksum = _PREAMBLE.unpack_from(content)
        (count,) = _COUNT.unpack_from(body)
    except error:
        return None
    if version != _VERSION or checksum != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    states: dict[int, ProducerState] = {}
    for producer_id, epoch, sequence, offset, delta, used_ms, coordinator_epoch, first_offset in _ENTRY.iter_unpack(
        body[_COUNT.size :]
    ):
        state = states.setdefault(producer_id, ProducerState(epoch))
        if sequence != NO_SEQUENCE:
            batch = WrittenBatch(sequence, offset, delta)
            state.batches = (*state.batches[1 - BATCHES_REMEMBERED :], batch)
        state.last_used_ms = used_ms
        state.coordinator_epoch = coordinator_epoch
        state.transaction_first_offset = first_offset
    return Producers(states)
