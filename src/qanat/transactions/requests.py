"""What a coordinator may be asked, in its own words.

The doors translate wire messages into these, version differences included, so
that no version number of an API gets in here; `client_version` is the
transaction version (`records`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from qanat.model.ids import TopicPartition
from qanat.transactions.records import CLASSIC


class ProducerIdAndEpoch(NamedTuple):
    """Who a producer believes to be."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitProducer:
    """A producer begins, or goes on after an error (KIP-360): give it an epoch, and end what its predecessor left."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """Who the producer was until now, where it goes on."""
    fresh_producer_id: int | None = None
    """An id that nobody has: the shell brings one when it is told that one is needed."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions that are about to be written to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_version: int = CLASSIC


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """Whether partitions are part of the transaction: asked before the first write of a classic client is taken."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = CLASSIC
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Every partition of a prepared transaction has its marker, or will never need one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    """One transactional id in detail; the doors batch."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """Every transactional id of the shard; an empty filter lets everything pass."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
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
