"""Transaction verification: the coordinator confirms that a write belongs to an open transaction, before the first one.

A write that was long on its way could otherwise open a transaction that is never ended (KIP-890). Partitions in which
the producer has written already need no confirmation. The log ensures that the transaction does not end between the
coordinator's confirmation and the write (`log.producers.Announced`).

A producer of version 2 begins its next transaction while the markers of its last one are on their way. Where one of
them comes between the request and the response, the coordinator is asked again: the epoch says which transaction is
meant, so that the coordinator refuses a write of the one that has ended. A classic producer has one epoch for both, and
is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.peers import Peers
from qanat.cluster.image import MetadataImage
from qanat.connection.faults import error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.transactions.records import CLASSIC
from qanat.transactions.replies import AddReply, VerifyReply
from qanat.transactions.requests import AddPartitions, VerifyPartitions
from qanat.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinator

_ATTEMPTS = 3
"""How often a coordinator is asked about a write that a marker overtakes; only a repeated marker can be the second."""
_CALL_S = 5.0
"""How long another broker may take to say whether a partition is part of a transaction."""


class TransactionVerification:
    """Asks coordinators on behalf of the partitions that this broker leads."""

    def __init__(self, node_id: int, image: MetadataImage, peers: Peers, transactions: TransactionCoordinator) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._transactions = transactions

    async def pass_first_write(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[Partition],
        client_version: int,
    ) -> dict[Partition, ErrorCode]:
        """The error, if any, that excludes each of these partitions from the transaction; clients of version 2 add it
        by writing."""
        unverified = [one for one in partitions if not one.log.producers.is_open(producer_id, producer_epoch)]
        outcomes = dict.fromkeys(partitions, ErrorCode.NONE)
        if not unverified or not self._transactions.settings.transaction_partition_verification_enable:
            return outcomes
        for _ in range(_ATTEMPTS):
            announced = {one: one.log.producers.begin_verification(producer_id) for one in unverified}
            outcomes |= await self._verify(transactional_id, producer_id, producer_epoch, unverified, client_version)
            allowed = [one for one in unverified if outcomes[one] is ErrorCode.NONE]
            unverified = [
                one
                for one in allowed
                if not one.log.producers.complete_verification(producer_id, producer_epoch, announced[one])
            ]
            if not unverified or client_version == CLASSIC:
                return outcomes | dict.fromkeys(unverified, ErrorCode.INVALID_TXN_STATE)
        return outcomes | dict.fromkeys(unverified, ErrorCode.CONCURRENT_TRANSACTIONS)

    async def _verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        unverified: list[Partition],
        client_version: int,
    ) -> dict[Partition, ErrorCode]:
        at = tuple(one.at for one in unverified)
        who = (transactional_id, producer_id, producer_epoch)
        coordinator = self._coordinator(transactional_id)
        if coordinator != self._node_id:
            errors = await self._verify_remotely(coordinator, who, at, is_verified_only=client_version == CLASSIC)
            return {one: _as_writer(errors[one.at]) for one in unverified}
        if client_version > CLASSIC:
            added = await self._transactions.ask(transactional_id, AddPartitions(*who, at, client_version))
            assert isinstance(added, AddReply)
            return dict.fromkeys(unverified, _as_writer(added.error))
        verified = await self._transactions.ask(transactional_id, VerifyPartitions(*who, at))
        assert isinstance(verified, VerifyReply)
        return {one: _as_writer(verified.errors[one.at]) for one in unverified}

    def _coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id; ourselves where none is known."""
        image, coordinated = self._image, self._transactions.topic
        topic = image.topics.get(coordinated.name)
        if topic is None:
            return self._node_id
        return image.state(topic, coordinated.partition_of(transactional_id)).leader

    async def _verify_remotely(
        self, node_id: int, who: tuple[str, int, int], partitions: Sequence[TopicPartition], *, is_verified_only: bool
    ) -> dict[TopicPartition, ErrorCode]:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for at in partitions:
            topics.setdefault(at.topic, AddPartitionsToTxnTopic(at.topic, [])).partitions.append(at.partition)
        transaction = AddPartitionsToTxnTransaction(*who, verify_only=is_verified_only, topics=list(topics.values()))
        # The client retries after this error, as it does when the coordinator has moved.
        errors = dict.fromkeys(partitions, ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            request = AddPartitionsToTxnRequest(transactions=[transaction])
            answer = await self._peers.call(node_id, ApiKey.ADD_PARTITIONS_TO_TXN, request, _CALL_S)
        except QanatError:
            return errors
        for one in answer.results_by_transaction:
            for topic in one.topic_results:
                for row in topic.results_by_partition:
                    code = error_code(row.partition_error_code)
                    moved = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    errors[TopicPartition(topic.name, row.partition_index)] = (
                        ErrorCode.NOT_ENOUGH_REPLICAS if moved else code
                    )
        return errors


def _as_writer(error: ErrorCode) -> ErrorCode:
    """Producers know a fenced epoch by another error."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
