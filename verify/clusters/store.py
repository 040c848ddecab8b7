"""The metadata store as one machine sees it: slow, unreachable, or silent about whether it took a commit.

All machines share one `MemoryStore`, which holds the true state. A machine's responses may be wrong as those of a real
store may: a commit that happened is reported as failed (rule 4 of the port), a watch ends, a renewal is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import Context
from random import Random

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster.store import (
    Changes,
    Committed,
    Compacted,
    Compare,
    Entry,
    Lease,
    Operation,
    Refused,
    Revision,
    Snapshot,
)
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError

_MEAN_DELAY_S = 0.001
_RENEWALS_PER_LIFE = 3
_LOST_ANSWERS = 0.02


class SimStore:
    """One machine's connection to the store."""

    def __init__(self, truth: MemoryStore, seed: int | str) -> None:
        self._truth = truth
        self._random = Random(f"store {seed}")
        self.is_cut = False
        """Whether neither requests nor responses get through."""
        self.loses_answers = False
        """Whether the responses to some commits are lost."""
        self.is_mute = False
        """Whether requests get through, and responses do not."""
        self.silence_s = 0.0
        """For how long it is mute from the next commit on."""
        self.on_stored: Callable[[Sequence[Operation]], None] | None = None
        """Called with the operations of every commit that the store takes."""
        self.lost_changes = 0
        """How many further changes do not reach the watcher."""
        self.gaps = 0
        """How many changes did not reach it."""

    def heal(self) -> None:
        self.is_cut = self.is_mute = self.loses_answers = False
        self.lost_changes = 0
        self.silence_s = 0.0

    async def get(self, key: str) -> Entry | None:
        await self._travel()
        found = await self._truth.get(key)
        await self._travel(is_answer=True)
        return found

    async def list(self, prefix: str) -> Snapshot:
        await self._travel()
        found = await self._truth.list(prefix)
        await self._travel(is_answer=True)
        return found

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        await self._travel()
        outcome = await self._truth.commit(compares, operations)
        if isinstance(outcome, Committed):
            if self.on_stored is not None:
                self.on_stored(operations)
            self._fall_silent()
        if self.loses_answers and self._random.random() < _LOST_ANSWERS:
            raise StoreUnavailableError("the store's answer was lost")
        await self._travel(is_answer=True)
        return outcome

    async def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        await self._travel()
        async for change in self._truth.watch(prefix, after_revision):
            await self._travel(is_answer=True)
            if self.lost_changes and isinstance(change, Changes):
                self.lost_changes -= 1
                self.gaps += 1
                continue
            yield change

    async def grant_lease(self, ttl_ms: int) -> Lease:
        await self._travel()
        lease = await self._truth.grant_lease(ttl_ms)
        await self._travel(is_answer=True)
        return lease

    async def keep_alive(self, lease: Lease) -> None:
        await self._travel()
        await self._truth.keep_alive(lease)
        await self._travel(is_answer=True)

    def keep(self, lease: Lease) -> SimKeptLease:
        return SimKeptLease(self, lease)

    async def revoke(self, lease: Lease) -> None:
        await self._travel()
        await self._truth.revoke(lease)

    async def close(self) -> None:
        """The shared store outlives every machine."""

    def _fall_silent(self) -> None:
        """The commit is taken, and the machine gets no response."""
        if self.silence_s:
            self.is_mute = True
            # The silence ends whether or not the machine lives.
            asyncio.get_running_loop().call_later(self.silence_s, self._speak_again, context=Context())
            self.silence_s = 0.0

    def _speak_again(self) -> None:
        self.is_mute = False

    async def _travel(self, *, is_answer: bool = False) -> None:
        await asyncio.sleep(self._random.expovariate(1 / _MEAN_DELAY_S))
        if self._is_blocked(is_answer=is_answer):
            await asyncio.sleep(self._random.uniform(0.1, 1.0))
            if self._is_blocked(is_answer=is_answer):
                raise StoreUnavailableError("the metadata store cannot be reached")

    def _is_blocked(self, *, is_answer: bool) -> bool:
        return self.is_cut or (is_answer and self.is_mute)


class SimKeptLease:
    """A lease that is renewed as long as the store can be reached."""

    def __init__(self, store: SimStore, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self._over = asyncio.Event()
        self._confirmed_s: float | None = None
        self._task = asyncio.get_running_loop().create_task(self._renew())

    @property
    def lease(self) -> Lease:
        return self._lease

    def remaining_ms(self) -> int:
        if self._confirmed_s is None:
            return 0
        return round((self._confirmed_s - asyncio.get_running_loop().time()) * 1000) + self._lease.ttl_ms

    async def lost(self) -> None:
        await self._over.wait()

    async def release(self) -> None:
        self._task.cancel()

    async def _renew(self) -> None:
        while True:
            sent_s = asyncio.get_running_loop().time()
            try:
                await self._store.keep_alive(self._lease)
                self._confirmed_s = sent_s
            except LeaseExpiredError:
                self._confirmed_s = None
                self._over.set()
                return
            except StoreUnavailableError:
                pass  # The next attempt may get through.
            await asyncio.sleep(self._lease.ttl_ms / _RENEWALS_PER_LIFE / 1000)
