"""Batches as they are sent: closed, compressed, or cut in two where a topic finds one too large."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from qanat.client.producer.deliveries import BatchDelivery, delivery_fault
from qanat.connection.batch_pipeline import Pending
from qanat.model.errors import QanatError
from qanat.wire.compression import Codec
from qanat.wire.records import BatchFields, decode_records, encode_records_batch, sealed

Settle = Callable[[BatchDelivery, int, int, QanatError | None], None]
_INFLATED_MAX = 1 << 30
"""Our own batches: they were in memory before."""


def seal(delivery: BatchDelivery, codec: Codec) -> bytearray:
    """Close the batch: nothing is added any more."""
    builder = delivery.builder
    count = delivery.count = builder.count
    payload = builder.finish()
    return sealed(payload, BatchFields(), codec, count, count - 1, builder.base_timestamp, builder.max_timestamp)


def pending_of(delivery: BatchDelivery, batch: bytearray, codec: Codec, expires_at: float, settle: Settle) -> Pending:
    """The batch for the pipeline; `settle` is called once with its outcome."""

    def done(pending: Pending, base_offset: int, appended_ms: int) -> None:
        fault = pending.fault
        if fault is not None:
            fault = delivery_fault(fault, pending.at, len(pending.batch), may_be_written=pending.may_be_written)
        settle(delivery, base_offset, appended_ms, fault)

    pending = Pending(delivery.at, batch, delivery.count, expires_at, done)
    pending.split = lambda whole: _halves(delivery, whole, codec, settle)
    return pending


def _halves(delivery: BatchDelivery, whole: Pending, codec: Codec, settle: Settle) -> list[Pending]:
    """Two batches with the records of one, which is settled when both are."""
    records = decode_records(whole.batch, _INFLATED_MAX)
    middle = len(records) // 2
    left = 2

    def part_settled(part: BatchDelivery, base_offset: int, appended_ms: int, fault: QanatError | None) -> None:
        nonlocal left
        part.settle(base_offset, appended_ms, fault)
        left -= 1
        if left == 0:
            faults = [one.fault for _, one in delivery.parts if one.fault is not None]
            settle(delivery, -1, -1, faults[0] if faults else None)

    pendings = []
    for first, some in ((0, records[:middle]), (middle, records[middle:])):
        part = BatchDelivery(delivery.at, 0, _nothing)
        part.count = len(some)
        delivery.parts.append((first, part))
        again = [replace(record, offset=offset) for offset, record in enumerate(some)]
        batch = encode_records_batch(again, BatchFields(), codec, len(some) - 1)
        pendings.append(pending_of(part, batch, codec, whole.expires_at, part_settled))
    return pendings


def _nothing() -> None:
    """A part is sent already."""
