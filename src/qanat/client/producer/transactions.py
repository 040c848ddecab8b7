"""Transactions of a producer: all of its records and offsets, or none.

A transaction that cannot be committed is aborted, and its error says why. Where no answer says whether it was
committed, the error says that. Where the state of a batch or of the
transaction is not certain, the abort takes a new epoch at the coordinator (KIP-360): a late request of the old epoch
is refused then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol, cast

from qanat.client.errors import ClientError, ClosedError, FencedError, TransactionError
from qanat.client.producer.accumulator import Accumulator
from qanat.client.producer.producer_core import ProducerCore
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError
from qanat.connection.producer_session import GroupMember, ProducerSession
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_OTHER_EPOCH = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
_LATE_MEMBER = (*_OTHER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_PAUSE_S = 0.02
"""How often it is looked whether the member knows its new epoch, whose answer is on its way."""


def _is_lost(fault: QanatError) -> bool:
    """Whether a coordinator may have done what it was asked for, though no answer says so."""
    is_unanswered = isinstance(fault, UnreachableError | OutOfTimeError)
    return is_unanswered or (isinstance(fault, RefusedError) and fault.is_retriable)


class GroupMetadata(Protocol):
    """What a transaction needs of a consumer: `AsyncConsumer.group_metadata`."""

    @property
    def group(self) -> str: ...
    @property
    def generation_or_epoch(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...


class HasGroupMetadata(Protocol):
    """A consumer."""

    @property
    def group_metadata(self) -> GroupMetadata: ...


class Claim(Protocol):
    """Offsets that a consumer may commit while it keeps their partitions: `AsyncConsumer.claim`."""

    def member(self) -> GroupMetadata:
        """Who commits; raises `TransactionError` once a partition has gone."""


def _claim_of(consumer: Any, offsets: Mapping[TopicPartition, int]) -> Claim | None:
    """None for the metadata of a moment, as in Java, which is refused once the group has moved on."""
    if hasattr(consumer, "member"):
        return cast(Claim, consumer)
    return cast(Claim, consumer.claim(offsets)) if hasattr(consumer, "claim") else None


class TransactionCore:
    """The transaction of a producer; runs on the I/O loop."""

    def __init__(self, core: ProducerCore, accumulator: Accumulator) -> None:
        self._core = core
        self._accumulator = accumulator
        self._must_renew = False
        self._is_fenced: QanatError | None = None
        self._ending = asyncio.Lock()
        """A commit or abort that its caller has cancelled takes some turns of the loop to end."""

    @property
    def _session(self) -> ProducerSession:
        session = self._core.pipeline.session
        assert session is not None, "a transactional producer has one"
        return session

    async def begin(self) -> None:
        """Open a transaction; raises where one is open."""
        core = self._core
        if core.settings.transactional_id is None:
            raise TransactionError("transactions need a name: give the producer a transactional_id")
        async with self._ending:
            is_open = core.is_in_transaction
        if is_open:
            raise TransactionError("a transaction is open: a producer has one at a time")
        if core.is_closed:
            raise ClosedError("the producer is closed: make another one")
        if self._is_fenced is not None:
            raise self._is_fenced
        try:
            await core.start()
            if self._must_renew:
                await self._renew()
        except QanatError as fault:
            raise self._judged(fault) from fault
        core.fault = None
        core.is_in_transaction = True
        core.update_stop()

    async def commit(self) -> None:
        """Make everything visible at once; otherwise abort, and raise the reason."""
        async with self._ending:
            await self._commit()

    async def abort(self) -> None:
        """Undo everything."""
        async with self._ending:
            await self._abort()

    async def _commit(self) -> None:
        core = self._core
        is_ending = False
        try:
            await core.flush()
            is_ending = self._session.is_open
            if is_ending:
                await self._session.end(core.deadline(), is_committed=True)
        except QanatError as fault:
            reason = self._judged(fault)
            if isinstance(reason, FencedError):
                self._leave()
                raise reason from fault
            self._must_renew = True
            if is_ending and _is_lost(fault):
                with suppress(TransactionError):
                    await self._abort()
                text = f"the transaction may be committed, or not: read what it wrote before you repeat it ({fault})"
                raise TransactionError(text, may_be_committed=True) from fault
            await self._abort()
            raise TransactionError(f"the transaction was aborted: {fault}") from fault
        except asyncio.CancelledError:
            self._must_renew = True  # Whether it is committed is not known: the next one begins by ending it.
            self._leave()
            raise
        self._leave()

    async def _abort(self) -> None:
        core = self._core
        undone = TransactionError("the transaction was aborted")
        core.abandon(undone, self._accumulator.discard())
        core.pipeline.fail_waiting(undone)
        try:
            await core.flush(must_raise=False)
            is_certain = core.fault is None or core.fault is undone
            if self._must_renew or not is_certain:
                await self._renew()
            elif self._session.is_open:
                await self._session.end(core.deadline(), is_committed=False)
        except QanatError as fault:
            self._must_renew = True
            reason = self._judged(fault)
            if isinstance(reason, FencedError):
                raise reason from fault
            raise TransactionError(f"the transaction could not be aborted, and will time out: {fault}") from fault
        except asyncio.CancelledError:
            self._must_renew = True
            raise
        finally:
            core.fault = None
            self._leave()

    async def commit_offsets(
        self, consumer: GroupMetadata | HasGroupMetadata | Claim, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Commit a group's offsets with the transaction.

        A rebalance that leaves the consumer its partitions is waited for; after any other, this raises
        `TransactionError`, and the records come again to whoever has the partitions now.
        """
        core = self._core
        if not core.is_in_transaction:
            raise TransactionError("offsets are committed within a transaction")
        claim = _claim_of(consumer, offsets)
        fixed = getattr(consumer, "group_metadata", consumer) if claim is None else None
        deadline = Deadline.after(core.settings.request_timeout_ms / 1000)
        while True:
            found: Any = fixed if claim is None else claim.member()
            member = GroupMember(found.group, found.generation_or_epoch, found.member_id, found.instance_id)
            try:
                return await self._session.commit_offsets(member, offsets, core.deadline())
            except QanatError as fault:
                if claim is None or fault.code not in _OTHER_EPOCH or deadline.is_over:
                    raise self._refused(member, fault) from fault
            # The coordinator has refused it for good, so that nothing of it can arrive later.
            while claim.member().generation_or_epoch == member.generation and not deadline.is_over:
                await deadline.pause(_PAUSE_S)

    def _refused(self, member: GroupMember, fault: QanatError) -> QanatError:
        self._must_renew = True
        if fault.code is ErrorCode.FENCED_INSTANCE_ID:
            return FencedError(f"another member has the instance id {member.instance_id}: end this one ({fault})")
        if fault.code in _LATE_MEMBER:
            return TransactionError(
                f"group {member.group} has moved on, and these partitions may belong to another member; rewind the "
                f"consumer ({fault})"
            )
        return self._judged(fault)

    async def _renew(self) -> None:
        session = self._session
        await session.renew(self._core.settings.transaction_timeout_ms, self._core.deadline())
        self._core.pipeline.identify(session)
        self._must_renew = False

    def _leave(self) -> None:
        self._core.is_in_transaction = False
        self._core.update_stop()

    def _judged(self, fault: QanatError) -> QanatError:
        """A fenced producer stays fenced."""
        if isinstance(fault, FencedError) or fault.code in _FENCED:
            name = self._core.settings.transactional_id
            self._is_fenced = FencedError(f"another producer has the transactional id {name}: end this one ({fault})")
            return self._is_fenced
        return fault if isinstance(fault, ClientError) else TransactionError(str(fault))
