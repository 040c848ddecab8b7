"""A parked fetch: it waits for records with callbacks from the append to its answer, and no task.

A consumer at the end of its partitions sends one fetch after another, and each is parked: every record that is read as
soon as it is written pays for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from qanat.broker.broker import Broker
from qanat.broker.replicas.fetch import Fetch
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.log.runtime.sync_future import SyncFuture
from qanat.wire.kafka.messages.fetch import FetchResponse


class ParkedFetch(SyncFuture[FetchResponse]):
    """The response to a fetch that found too little: when there is enough, or its time is up."""

    def __init__(self, fetch: Fetch, max_wait_s: float, respond: Callable[[], FetchResponse], broker: Broker) -> None:
        super().__init__()
        self._fetch = fetch
        self._respond = respond
        self._broker = broker
        self._reading: asyncio.Task[None] | None = None
        loop = self.get_loop()
        self._timer = loop.call_later(max_wait_s, self._time_out)
        self._call_soon = loop.call_soon
        fetch.park(self._wake)
        broker.parked.add(self)
        self.on_settled(broker.parked.discard)

    def cancel(self, msg: Any = None) -> bool:
        if not self.done():
            self._stop()
            if self._reading is not None:
                self._reading.cancel()
        return super().cancel(msg)

    def _wake(self) -> None:
        # The append goes on first; whatever else is appended in this turn is read with it.
        self._call_soon(self._retry)

    def _retry(self) -> None:
        if self.done() or self._reading is not None:
            return
        fetch = self._fetch
        if not fetch.try_now():
            self._reading = self._broker.park(self._read())
        elif fetch.is_enough:
            self._answer()
        else:
            fetch.park(self._wake)

    def _time_out(self) -> None:
        """Answer with what is in memory; records on disk come with the next fetch."""
        if self._reading is None:
            self._fetch.try_now()
            self._answer()

    async def _read(self) -> None:
        """Read records that are no longer in memory, and answer with them."""
        try:
            await self._fetch.read_in_turns(CooperativeYield())
        except Exception as fault:  # noqa: BLE001 - the client's connection reports it
            self._stop()
            self.settle_with_fault(fault)
        else:
            self._answer()

    def _answer(self) -> None:
        self._stop()
        try:
            response = self._respond()
        except Exception as fault:  # noqa: BLE001 - the client's connection reports it
            self.settle_with_fault(fault)
        else:
            self.settle(response)

    def _stop(self) -> None:
        self._timer.cancel()
        self._fetch.unpark()
