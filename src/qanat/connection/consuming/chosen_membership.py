"""A place in a group on the newest protocol that broker and group have: KIP-848, otherwise the classic one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

from qanat.connection.cluster import Cluster
from qanat.connection.consuming.consumer_membership import ClassicOnlyError, ConsumerMembership
from qanat.connection.consuming.group_commits import CommittedOffset, Identity
from qanat.connection.consuming.group_place import GroupPlace, Listener, PlaceTerms
from qanat.model.ids import TopicPartition

GroupProtocol = Literal["auto", "consumer", "classic"]


class ChosenMembership:
    """One member. `auto` falls back to the classic protocol where the other is refused."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        listener: Listener,
        terms: PlaceTerms,
        *,
        member_id: str,
        protocol: GroupProtocol = "auto",
    ) -> None:
        self._call = (cluster, group, topics, listener, terms)
        self._is_fixed = protocol != "auto"
        self.is_classic = protocol == "classic"
        self._place: GroupPlace = (
            self._classic_place() if self.is_classic else ConsumerMembership(*self._call, member_id)
        )
        self._running: asyncio.Task[None] | None = None

    @property
    def identity(self) -> Identity:
        return self._place.identity

    @property
    def is_joined(self) -> bool:
        return self._place.is_joined

    @property
    def trouble(self) -> str:
        return self._place.trouble

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    async def wait_failed(self) -> None:
        assert self._running is not None, "start comes first"
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    def subscribe(self, topics: Sequence[str]) -> None:
        self._place.subscribe(topics)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> bool:
        return await self._place.commit(offsets)

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._place.close()

    async def _run(self) -> None:
        self._place.start()
        try:
            await self._place.wait_failed()
        except ClassicOnlyError:
            if self._is_fixed:
                raise
            await self._place.close()
            self.is_classic = True
            self._place = self._classic_place()
            self._place.start()
            await self._place.wait_failed()

    def _classic_place(self) -> GroupPlace:
        # Imported late: members of the newer protocol start faster.
        from qanat.connection.consuming.classic_membership import ClassicMembership

        return ClassicMembership(*self._call)
