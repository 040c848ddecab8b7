"""Leaders of the topics that a client uses, kept until a request fails or they are old."""

from __future__ import annotations

import asyncio

from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, refused
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

_PAUSE_S = 0.1
"""Between two refreshes of one topic."""


class LeaderDirectory:
    """Topics and their leaders, on one event loop."""

    def __init__(self, cluster: Cluster, max_age_s: float = 300.0, *, may_create: bool = True) -> None:
        self._cluster = cluster
        self._max_age_s = max_age_s
        self._may_create = may_create
        self._loop = asyncio.get_running_loop()
        self._views: dict[str, tuple[TopicLeaders, float]] = {}
        self._distrusted: set[str] = set()
        self._refreshing: set[str] = set()
        self._faults: dict[str, QanatError] = {}

    def view(self, topic: str) -> TopicLeaders | None:
        found = self._views.get(topic)
        return None if found is None else found[0]

    def leader(self, at: TopicPartition) -> int | None:
        """The broker that leads the partition; None where it is unknown, or no longer certain."""
        found = self._views.get(at.topic)
        if found is None or at.topic in self._distrusted or self._loop.time() > found[1] + self._max_age_s:
            return None
        leader = found[0].leaders.get(at.partition, -1)
        return None if leader < 0 else leader

    def distrust(self, topic: str) -> None:
        """A request failed: find out the leaders again before the next one."""
        self._distrusted.add(topic)

    def fault(self, at: TopicPartition) -> QanatError | None:
        """Why the partition's leader is not known."""
        view = self.view(at.topic)
        if view is not None and at.partition not in view.leaders:
            there = f"it has {len(view.leaders)}, from 0 to {len(view.leaders) - 1}"
            what = f"topic {at.topic} has no partition {at.partition}: {there}"
            return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
        if view is not None and view.leaders[at.partition] < 0:
            return refused(f"partition {at.partition} of topic {at.topic}", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._faults.get(at.topic)

    async def known(self, topic: str, deadline: Deadline) -> TopicLeaders:
        """The topic's partitions; asked for where they are not known."""
        while topic not in self._views:
            if self.begin(topic):
                return await self.refresh(topic, deadline)
            await deadline.pause(_PAUSE_S / 10)
            if deadline.is_over:
                raise OutOfTimeError(f"the leaders of topic {topic} are not known in time")
        return self._views[topic][0]

    def begin(self, topic: str) -> bool:
        """Whether the caller is to `refresh`: nobody else does."""
        if topic in self._refreshing:
            return False
        self._refreshing.add(topic)
        return True

    async def refresh(self, topic: str, deadline: Deadline) -> TopicLeaders:
        """Ask for the leaders, after `begin`; some may still be missing."""
        try:
            view = await self._cluster.topic(topic, deadline, may_create=self._may_create, may_lack_leaders=True)
        except QanatError as fault:
            self._faults[topic] = fault
            await deadline.pause(_PAUSE_S)
            raise
        else:
            self._views[topic] = view, self._loop.time()
            self._distrusted.discard(topic)
            self._faults.pop(topic, None)
            if -1 in view.leaders.values():
                await deadline.pause(_PAUSE_S)
            return view
        finally:
            self._refreshing.discard(topic)
