"""The response to a parked fetch (`broker.replicas.parked_fetch`): without a task, where records are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from qanat.broker.broker import Broker
from qanat.broker.replicas.fetch import Fetch
from qanat.broker.replicas.parked_fetch import ParkedFetch
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.log.runtime.sync_future import SyncFuture
from qanat.wire.kafka.messages.fetch import FetchResponse


class ParkedResponse(SyncFuture[FetchResponse]):
    """Settled when there is enough, or the time is up."""

    def __init__(self, fetch: Fetch, max_wait_s: float, respond: Callable[[], FetchResponse], broker: Broker) -> None:
        super().__init__()
        self._fetch = fetch
        self._respond = respond
        self._broker = broker
        self._reading: asyncio.Task[None] | None = None
        self._parked = ParkedFetch(fetch, max_wait_s, self._retry)
        broker.parked.add(self)
        self.on_settled(broker.parked.discard)

    def cancel(self, msg: Any = None) -> bool:
        if not self.done():
            self._parked.stop()
            if self._reading is not None:
                self._reading.cancel()
        return super().cancel(msg)

    def _retry(self, is_late: bool) -> None:
        """Read what is in memory; when the time is up, records on disk come with the next fetch."""
        try:
            is_complete = self._fetch.try_now()
        except Exception as fault:  # noqa: BLE001 - the client's connection reports it
            self._parked.stop()
            self.settle_with_fault(fault)
            return
        if is_late or (is_complete and self._fetch.is_enough):
            self._answer()
        elif not is_complete:
            self._parked.stop()
            self._reading = self._broker.park(self._read())

    async def _read(self) -> None:
        """Read records that are no longer in memory, and answer with them."""
        try:
            await self._fetch.read_in_turns(CooperativeYield())
        except Exception as fault:  # noqa: BLE001 - the client's connection reports it
            self.settle_with_fault(fault)
        else:
            self._answer()

    def _answer(self) -> None:
        self._parked.stop()
        try:
            response = self._respond()
        except Exception as fault:  # noqa: BLE001 - the client's connection reports it
            self.settle_with_fault(fault)
        else:
            self.settle(response)
