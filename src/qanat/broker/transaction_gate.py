"""Whether a transactional write belongs to an open transaction: asked of its coordinator before the first one.

A write that was long on its way could otherwise open a transaction that nobody
will ever end (KIP-890). Partitions in which the producer has written already
need no question. That the transaction does not end between the coordinator's
yes and the write is seen to by the log (`log.producers.Announced`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.broker.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import CLASSIC
from qanat.transactions.replies import AddReply, VerifyReply
from qanat.transactions.requests import AddPartitions, VerifyPartitions

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class TransactionGate:
    """Asks coordinators in the name of the partitions that this broker leads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def pass_first_write(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[Partition],
        client_version: int,
    ) -> dict[Partition, ErrorCode]:
        """What keeps each of these partitions out of the transaction; clients of version 2 add it by writing."""
        asked = [one for one in partitions if not one.log.producers.is_open(producer_id, producer_epoch)]
        outcomes = dict.fromkeys(partitions, ErrorCode.NONE)
        if not asked or not self._broker.transactions.settings.transaction_partition_verification_enable:
            return outcomes
        announced = {one: one.log.producers.announce(producer_id) for one in asked}
        outcomes |= await self._ask(transactional_id, producer_id, producer_epoch, asked, client_version)
        for partition in asked:
            is_so = outcomes[partition] is ErrorCode.NONE
            if is_so and not partition.log.producers.confirm(producer_id, producer_epoch, announced[partition]):
                outcomes[partition] = ErrorCode.INVALID_TXN_STATE
        return outcomes

    async def _ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, asked: list[Partition], client_version: int
    ) -> dict[Partition, ErrorCode]:
        at = tuple(one.at for one in asked)
        who = (transactional_id, producer_id, producer_epoch)
        if client_version > CLASSIC:
            added = await self._broker.transactions.ask(transactional_id, AddPartitions(*who, at, client_version))
            assert isinstance(added, AddReply)
            return dict.fromkeys(asked, _as_writer(added.error))
        verified = await self._broker.transactions.ask(transactional_id, VerifyPartitions(*who, at))
        assert isinstance(verified, VerifyReply)
        return {one: _as_writer(verified.errors[one.at]) for one in asked}


def _as_writer(error: ErrorCode) -> ErrorCode:
    """Writers know a fenced producer by the other name."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
