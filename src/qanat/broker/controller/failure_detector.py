"""Brokers whose process has ended, found before their lease runs out: the shell around `cluster.failure_detector`.

A follower that lost its leader connects again. Where that is refused, nobody listens there any more, or something
between us pretends so; the detector decides what that is worth. Any other silence (a lost packet, a paused process, a
host that is gone) is left to the lease.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from qanat.broker.metadata.confirmed_lease import confirmed
from qanat.cluster import keys
from qanat.cluster.failure_detector import SUSPICION_MS, FailureDetector, Verdict
from qanat.cluster.store import Absent, Committed, Compare, Delete, LeaseId, ModifiedAt, Refused
from qanat.model.errors import LeaseExpiredError, QanatError, StoreUnavailableError
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_CONNECT_S = 1.0
_RETRY_S = 0.5
_NEWS_S = (0.002, 0.002, 0.002, 0.004, 0.008, 0.016)
"""When the first witness asks the store whether the second has evicted: a watch may tell by polling, and the first
witness may be the controller, for whom clients wait."""


class FailureDetection:
    """One look at a time for each broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._detector = FailureDetector(broker.node_id, broker.metadata.image)
        self._looking: set[int] = set()

    def lost(self, node_id: int) -> None:
        """We cannot connect to a broker."""
        if node_id not in self._looking and self._detector.may_evict(node_id, self._broker.steady_ms()):
            self._looking.add(node_id)
            self._broker.park(self._look(node_id)).add_done_callback(lambda _: self._looking.discard(node_id))

    def note(self, key: keys.FailureReportKey | keys.EvictionKey) -> None:
        """A suspicion or an eviction has come or gone."""
        self._detector.note(key, self._broker.steady_ms())
        if isinstance(key, keys.FailureReportKey) and self._detector.is_asked(key.node_id):
            self.lost(key.node_id)

    async def _look(self, node_id: int) -> None:
        epoch = self._broker.metadata.image.broker_epochs.get(node_id)
        if not await self._is_deserted(node_id):
            return
        image = self._broker.metadata.image
        if epoch is None or image.broker_epochs.get(node_id) != epoch:
            return
        with suppress(StoreUnavailableError, LeaseExpiredError):  # Then the lease decides.
            word: Compare | None = None
            match self._detector.decide(node_id, self._broker.steady_ms()):
                case Verdict.TESTIFY:
                    word = await self._testify(node_id)
                case Verdict.EVICT:
                    word = image.unchanged(keys.suspicion(node_id))
                case Verdict.LEAVE:
                    pass
            if word is not None:
                await self._evict(node_id, epoch, word)

    async def _is_deserted(self, node_id: int) -> bool:
        try:
            host, port = self._broker.address_of(node_id)
            async with asyncio.timeout(_CONNECT_S):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
            transport.abort()
        except ConnectionRefusedError:
            return True
        except (OSError, QanatError):
            return False
        return False

    async def _testify(self, node_id: int) -> Compare | None:
        """Write our suspicion; what holds as long as that of another stands, where that is there already.

        Nobody waits for the watch: the store's own answer says who was first.
        """
        broker, ours, kept = self._broker, self._broker.membership.epoch, self._broker.membership.kept
        if ours is None or kept is None:
            return None
        commit = self._detector.testimony(node_id, ours, kept.lease.lease_id, broker.steady_ms())
        broker.park(self._withdraw(keys.suspicion(node_id), kept.lease.lease_id))
        match await broker.metadata.store.commit(commit.compares, commit.operations):
            case Refused((found, *_)) if found is not None and self._detector.is_shared(node_id, found):
                return ModifiedAt(found.key, found.mod_revision)
            case Refused():
                return None
            case Committed():
                await self._expect_eviction(node_id)
                return None

    async def _expect_eviction(self, node_id: int) -> None:
        """Clean up after the second witness, as soon as it has done its part; by that we hear of it, too."""
        metadata, epoch = self._broker.metadata, self._broker.metadata.image.broker_epochs.get(node_id)
        for pause_s in _NEWS_S:
            await asyncio.sleep(pause_s)
            if metadata.image.broker_epochs.get(node_id) != epoch:
                return
            gone = [Absent(keys.broker(node_id))]
            if isinstance(await metadata.store.commit(gone, [Delete(keys.suspicion(node_id))]), Committed):
                return

    async def _withdraw(self, key: str, lease: LeaseId) -> None:
        """Take our suspicion back where no other broker has shared it in time."""
        store = self._broker.metadata.store
        await asyncio.sleep(SUSPICION_MS / 1000)
        while True:
            try:
                found = await store.get(key)
                if found is not None and found.lease == lease:
                    await store.commit([ModifiedAt(key, found.mod_revision)], [Delete(key)])
                return
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    async def _evict(self, node_id: int, epoch: int, word: Compare) -> None:
        await confirmed(self._broker.membership)
        ours, now_ms = self._broker.membership.epoch, self._broker.steady_ms()
        is_same = self._broker.metadata.image.broker_epochs.get(node_id) == epoch
        if ours is None or not is_same or not self._detector.may_evict(node_id, now_ms):
            return
        commit = self._detector.eviction(node_id, ours, word, now_ms)
        if await self._broker.metadata.commit(commit.compares, commit.operations):
            log_event(
                "broker evicted: two brokers found nobody listening at its address", level="warning", node=node_id
            )
