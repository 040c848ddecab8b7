"""Replies of a coordinator, and `refused`: the reply to any request that cannot be served at all."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from msgspec import Struct

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from qanat.transactions.records import TransactionRecord
from qanat.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersWritten,
    Request,
    VerifyPartitions,
)


class ProducerReply(Struct, frozen=True):
    """To InitProducer and EndTransaction: the producer's id and epoch from now on."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class ProducerIdNeeded(Struct, frozen=True):
    """Repeat the request with a fresh producer id: nothing was decided."""


class AddReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE


class VerifyReply(Struct, frozen=True):
    """One error per requested partition."""

    errors: dict[TopicPartition, ErrorCode]


class CompletedReply(Struct, frozen=True):
    """To MarkersWritten."""

    error: ErrorCode = ErrorCode.NONE


class DescribeReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    record: TransactionRecord | None = None


class ListReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    records: tuple[TransactionRecord, ...] = ()


Reply: TypeAlias = (
    ProducerReply | ProducerIdNeeded | AddReply | VerifyReply | CompletedReply | DescribeReply | ListReply
)


def refused(request: Request, error: ErrorCode) -> Reply:
    """The reply to a request that fails as a whole: a shell uses it for shards that are loading, lost or failed."""
    match request:
        case InitProducer() | EndTransaction():
            return ProducerReply(error)
        case AddPartitions():
            return AddReply(error)
        case VerifyPartitions():
            return VerifyReply(dict.fromkeys(request.partitions, error))
        case MarkersWritten():
            return CompletedReply(error)
        case DescribeTransaction():
            return DescribeReply(error)
        case ListTransactions():
            return ListReply(error)
    assert_never(request)
