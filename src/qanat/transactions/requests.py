"""Requests to a coordinator, independent of the wire.

Handlers translate wire messages into these, version differences included, so
that no version number of an API gets in here; `client_version` is the
transaction version (`records`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from qanat.model.ids import TopicPartition
from qanat.transactions.records import CLASSIC


class ProducerIdAndEpoch(NamedTuple):
    """A producer's own id and epoch."""

    producer_id: int
    producer_epoch: int


class InitProducer(Struct, frozen=True):
    """A producer begins, or continues after an error (KIP-360): give it an epoch, end its predecessor's transaction."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """The producer's id and epoch until now, where it continues."""
    fresh_producer_id: int | None = None
    """An unused id: the shell brings one when the shard needs it."""


class AddPartitions(Struct, frozen=True):
    """Partitions that are about to be written to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_version: int = CLASSIC


class VerifyPartitions(Struct, frozen=True):
    """Whether partitions are part of the transaction: sent before the first write of a classic client is appended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class EndTransaction(Struct, frozen=True):
    """Commit or abort."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = CLASSIC
    fresh_producer_id: int | None = None


class MarkersWritten(Struct, frozen=True):
    """Every partition of a prepared transaction has its marker, or will never need one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class DescribeTransaction(Struct, frozen=True):
    """One transactional id in detail; handlers batch."""

    transactional_id: str


class ListTransactions(Struct, frozen=True):
    """Every transactional id of the shard; an empty filter matches everything."""

    states: tuple[str, ...] = ()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    """Only transactions that have been open for longer."""


Request: TypeAlias = (
    InitProducer
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | MarkersWritten
    | DescribeTransaction
    | ListTransactions
)


def with_producer_id(request: InitProducer | EndTransaction, fresh_producer_id: int) -> InitProducer | EndTransaction:
    """The same request, with an unused id."""
    if isinstance(request, InitProducer):
        return InitProducer(request.transactional_id, request.timeout_ms, request.expected, fresh_producer_id)
    who = (request.transactional_id, request.producer_id, request.producer_epoch)
    return EndTransaction(*who, request.is_commit, request.client_version, fresh_producer_id)
