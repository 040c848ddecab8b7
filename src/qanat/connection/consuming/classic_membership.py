"""A place in a group on the classic protocol: eager, or cooperative where every offered assignor is.

An eager member gives back everything before it joins again. A cooperative one goes on reading what it owns, gives back
only what the group moves, and joins again at once so that the new owner gets it (KIP-429).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from qanat.connection.cluster import Cluster
from qanat.connection.consuming.group_commits import CommittedOffset, Identity
from qanat.connection.consuming.group_place import Listener, PlaceTerms
from qanat.connection.consuming.sticky_assignor import COOPERATIVE_STICKY
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.connection.membership import JoinTerms, Membership
from qanat.model.ids import TopicPartition

_PAUSE_S = 1.0
"""How long a group that cannot be reached is left alone."""


class ClassicMembership:
    """One member, on a task of its own."""

    def __init__(
        self, cluster: Cluster, group: str, topics: Sequence[str], listener: Listener, terms: PlaceTerms
    ) -> None:
        join = JoinTerms(terms.session_ms, terms.rebalance_ms, terms.heartbeat_s, terms.instance_id, terms.assignors)
        self._member = Membership(cluster, group, topics, join)
        self._listener = listener
        self._rebalance_s = terms.rebalance_ms / 1000
        self._is_cooperative = set(terms.assignors) == {COOPERATIVE_STICKY}
        self._owned: list[TopicPartition] = []
        self._running: asyncio.Task[None] | None = None
        self.is_joined = False
        self._trouble = ""

    @property
    def trouble(self) -> str:
        return self._trouble or self._member.trouble

    @property
    def identity(self) -> Identity:
        # Removed, and joining as another member: the listener does not know of the loss yet.
        return Identity() if self._member.was_removed else self._member.identity

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    async def wait_failed(self) -> None:
        assert self._running is not None, "start comes first"
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    def subscribe(self, topics: Sequence[str]) -> None:
        self._member.subscribe(topics)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> bool:
        return await self._member.commit(offsets)

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if not self._member.was_removed:
            await self._give_back(self._owned)
        await self._member.leave()

    async def _run(self) -> None:
        while True:
            if not self._is_cooperative or self._member.was_removed:
                await self._give_back(self._owned)
            self._member.owned = list(self._owned)
            try:
                assigned = await self._member.join()
            except (UnreachableError, OutOfTimeError) as fault:
                self._trouble = str(fault)
                await asyncio.sleep(_PAUSE_S)
                continue
            self._trouble = ""
            if await self._take(assigned):
                await self._member.wait_for_change()

    async def _take(self, assigned: list[TopicPartition]) -> bool:
        """Own these instead; False where something was given back, so that the group has to be joined again."""
        if self._member.was_removed:
            await self._give_back(self._owned)
        leaving = [at for at in self._owned if at not in assigned]
        added = [at for at in assigned if at not in self._owned]
        await self._give_back(leaving)
        self._owned = self._owned + added
        await self._listener.assigned(added)
        self.is_joined = True
        return not leaving

    async def _give_back(self, partitions: list[TopicPartition]) -> None:
        """Call the listener about partitions that go; it has at most the rebalance timeout."""
        leaving = list(partitions)
        was_removed, self._member.was_removed = self._member.was_removed, False
        self._owned = [at for at in self._owned if at not in leaving]
        if leaving:
            tell = self._listener.lost if was_removed else self._listener.revoked
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tell(leaving), self._rebalance_s)
