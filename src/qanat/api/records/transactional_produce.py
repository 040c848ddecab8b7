"""First writes of a transaction: which batches the transaction coordinator must confirm, and its errors for producers.

Up to version 11 the coordinator verifies that the partition was added; from version 12 on the write adds it (KIP-890),
and a producer that writes before the markers of its last transaction are out gets CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.api.transactions.transaction_errors import abortable_as
from qanat.broker.replicas.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION
from qanat.transactions.requests import ProducerIdAndEpoch
from qanat.wire.batch_header import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL, read_header

if TYPE_CHECKING:
    from qanat.api.request_context import RequestContext

FirstWrites = dict[ProducerIdAndEpoch, list[int]]
"""The parts of a request that are a producer's first write to their partition, by place in the request."""

_ABORTABLE_FROM, _ADDS_FROM = 11, 12
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of the coordinator, not of the write: older clients do not retry them."""


def is_transactional(batch: memoryview | None) -> bool:
    """Whether a batch says that it is part of a transaction; a batch of whatever soundness."""
    return batch is not None and len(batch) > ATTRIBUTES_AT and batch[ATTRIBUTES_AT] & TRANSACTIONAL != 0


def first_writes(parts: Sequence[tuple[Partition, memoryview, object]]) -> FirstWrites:
    """The first writes; admission refuses malformed batches later."""
    found: FirstWrites = {}
    for number, (partition, batch, _) in enumerate(parts):
        if len(batch) < HEADER_SIZE:
            continue
        header = read_header(batch)
        if header.is_transactional and not partition.log.producers.is_open(header.producer_id, header.producer_epoch):
            who = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            found.setdefault(who, []).append(number)
    return found


async def verify_transaction(
    context: RequestContext,
    transactional_id: str,
    parts: Sequence[tuple[Partition, memoryview, object]],
    first: FirstWrites,
) -> dict[int, ErrorCode]:
    """The errors of refused parts, by place in the request."""
    version = EPOCH_PER_TRANSACTION if context.version >= _ADDS_FROM else CLASSIC
    refused: dict[int, ErrorCode] = {}
    for who, numbers in first.items():
        partitions = [parts[number][0] for number in numbers]
        outcomes = await context.broker.transaction_verification.pass_first_write(
            transactional_id, *who, partitions, version
        )
        for number in numbers:
            error = outcomes[parts[number][0]]
            if error is not ErrorCode.NONE:
                refused[number] = _error_for_version(error, context.version)
    return refused


def _error_for_version(error: ErrorCode, version: int) -> ErrorCode:
    is_early = error is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_FROM
    if is_early or error in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return abortable_as(error, version, known_from=_ABORTABLE_FROM)
