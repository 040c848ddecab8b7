"""Failure detection: brokers whose process has ended are evicted before their lease expires
(`cluster.failure_detector`).

A follower that loses its leader connects again. Where that is refused, no process listens there any more, or something
between us pretends so; the detector decides what a refusal counts for. Any other silence (a lost packet, a paused
process, a host that is gone) is left to the lease.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.metadata.confirmed_lease import confirmed
from qanat.broker.runtime.peers import Peers
from qanat.cluster import keys
from qanat.cluster.failure_detector import REPORT_MS, FailureDetector, Verdict
from qanat.cluster.store import Absent, Committed, Compare, Delete, LeaseId, ModifiedAt, Refused
from qanat.model.errors import LeaseExpiredError, QanatError, StoreUnavailableError
from qanat.telemetry.events import log_event

_CONNECT_S = 1.0
_RETRY_S = 0.5
_NEWS_S = (0.002, 0.002, 0.002, 0.004, 0.008, 0.016)
"""When the first witness asks the store whether the second has evicted: a watch may poll, and the first witness may be
the controller, which clients wait for."""


class FailureDetection:
    """One check at a time for each broker."""

    def __init__(self, node: ClusterNode, peers: Peers) -> None:
        self._node = node
        self._peers = peers
        self._detector = FailureDetector(node.node_id, node.metadata.image)
        self._looking: set[int] = set()

    def on_unreachable(self, node_id: int) -> None:
        """We cannot connect to a broker."""
        if node_id not in self._looking and self._detector.may_evict(node_id, self._node.steady_ms()):
            self._looking.add(node_id)
            self._node.park(self._look(node_id)).add_done_callback(lambda _: self._looking.discard(node_id))

    def note(self, key: keys.FailureReportKey | keys.EvictionKey) -> None:
        """A failure report or an eviction was written or deleted."""
        self._detector.note(key, self._node.steady_ms())
        if isinstance(key, keys.FailureReportKey) and self._detector.should_check(key.node_id):
            self.on_unreachable(key.node_id)

    async def _look(self, node_id: int) -> None:
        epoch = self._node.metadata.image.broker_epochs.get(node_id)
        if not await self._is_deserted(node_id):
            return
        image = self._node.metadata.image
        if epoch is None or image.broker_epochs.get(node_id) != epoch:
            return
        with suppress(StoreUnavailableError, LeaseExpiredError):  # Then the lease decides.
            report: Compare | None = None
            match self._detector.decide(node_id, self._node.steady_ms()):
                case Verdict.REPORT:
                    report = await self._report(node_id)
                case Verdict.EVICT:
                    report = image.unchanged(keys.failure_report(node_id))
                case Verdict.LEAVE:
                    pass
            if report is not None:
                await self._evict(node_id, epoch, report)

    async def _is_deserted(self, node_id: int) -> bool:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await self._peers.is_refused(node_id)
        except (OSError, QanatError):
            return False

    async def _report(self, node_id: int) -> Compare | None:
        """Write our failure report. Where another broker's is there already, returns the compare that holds as long as
        it stands.

        This does not wait for the watch: the store's own answer says which witness was first.
        """
        node, ours, kept = self._node, self._node.membership.epoch, self._node.membership.kept_lease
        if ours is None or kept is None:
            return None
        commit = self._detector.report(node_id, ours, kept.lease.lease_id, node.steady_ms())
        node.park(self._withdraw(keys.failure_report(node_id), kept.lease.lease_id))
        match await node.metadata.store.commit(commit.compares, commit.operations):
            case Refused((found, *_)) if found is not None and self._detector.is_shared(node_id, found):
                return ModifiedAt(found.key, found.mod_revision)
            case Refused():
                return None
            case Committed():
                await self._expect_eviction(node_id)
                return None

    async def _expect_eviction(self, node_id: int) -> None:
        """Clean up after the second witness as soon as it has evicted, which is also how we learn of it."""
        metadata, epoch = self._node.metadata, self._node.metadata.image.broker_epochs.get(node_id)
        for pause_s in _NEWS_S:
            await asyncio.sleep(pause_s)
            if metadata.image.broker_epochs.get(node_id) != epoch:
                return
            gone = [Absent(keys.broker(node_id))]
            if isinstance(await metadata.store.commit(gone, [Delete(keys.failure_report(node_id))]), Committed):
                return

    async def _withdraw(self, key: str, lease: LeaseId) -> None:
        """Delete our failure report where no other broker has shared it in time."""
        store = self._node.metadata.store
        await asyncio.sleep(REPORT_MS / 1000)
        while True:
            try:
                found = await store.get(key)
                if found is not None and found.lease == lease:
                    await store.commit([ModifiedAt(key, found.mod_revision)], [Delete(key)])
                return
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    async def _evict(self, node_id: int, epoch: int, report: Compare) -> None:
        await confirmed(self._node.membership)
        ours, now_ms = self._node.membership.epoch, self._node.steady_ms()
        is_same = self._node.metadata.image.broker_epochs.get(node_id) == epoch
        if ours is None or not is_same or not self._detector.may_evict(node_id, now_ms):
            return
        commit = self._detector.eviction(node_id, ours, report, now_ms)
        if await self._node.metadata.commit(commit.compares, commit.operations):
            log_event("broker evicted: its address refused connections of two brokers", level="warning", node=node_id)
