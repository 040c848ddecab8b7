"""Lying disks: kill all brokers, change one broker's disk, start all again.

Rule 1: one disk lies at a time. The next one lies only after all replicas are in sync and a flipped bit is repaired; as
        long as no broker has read a flipped bit, only the same disk may lie again.
Rule 2: a lie is a state in which a disk may be. An image is taken while its process is stopped.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from verify.chaos.brokers import Broker
from verify.chaos.convergence import Convergence
from verify.chaos.disk_damage import Flip, OldImage, flip_bit, is_repaired, remove_partition
from verify.chaos.plan import PlannedFault

_WHOLE_S = 120.0
_PAUSED, _KILLED = 0.4, 0.7
"""Shares of images: up to the first of a paused, up to the second of a killed process; the rest after a shutdown."""
_LONGEST_SINCE_S = 3.0
"""The longest pause between the image and the kill of all brokers."""


class LyingDisks:
    """All lies of a run. No other fault is active during `inject`, nor on the brokers in `busy`."""

    def __init__(self, brokers: Sequence[Broker], convergence: Convergence, busy: set[int]) -> None:
        self._brokers, self._convergence, self._busy = brokers, convergence, busy
        self._suspect: Broker | None = None
        self._flips: list[Flip] = []
        """Bits of the suspect's disk that may not be repaired yet."""
        self.longest_led_s = 0.0
        """From the start of all brokers until every partition had a leader."""
        self.longest_in_sync_s = 0.0
        """From the end of all other faults until every replica was in sync."""
        self.lies: list[str] = []
        self.anomalies: list[str] = []

    async def await_in_sync(self) -> bool:
        """Wait until every replica of every partition is in sync; False, and an anomaly, where that takes too long."""
        began = time.monotonic()
        wrong = await self._convergence.until_in_sync(_WHOLE_S)
        self.longest_in_sync_s = max(self.longest_in_sync_s, time.monotonic() - began)
        if wrong:
            self.anomalies.append(f"not in sync after {_WHOLE_S:.0f} s: {', '.join(wrong)}; {self._last_lie()}")
        return not wrong

    async def inject(self, fault: PlannedFault) -> None:
        """Let a disk lie, all replicas being in sync; returns when every partition has a leader again."""
        broker, image = await self._liar(fault), None
        if fault.kind == "old image":
            image = await self._take_image(fault, broker)
            await asyncio.sleep(min(fault.lasts_s, _LONGEST_SINCE_S))
            if not await self.await_in_sync():
                return
        await self._lie_while_all_are_down(fault, broker, image)
        began = time.monotonic()
        wrong = await self._convergence.until_led(_WHOLE_S)
        self.longest_led_s = max(self.longest_led_s, time.monotonic() - began)
        if wrong:
            self.anomalies.append(f"no leader after {_WHOLE_S:.0f} s: {', '.join(wrong)}; {self._last_lie()}")

    async def _liar(self, fault: PlannedFault) -> Broker:
        """The broker whose disk lies: the drawn one, unless another one's flipped bit is not repaired yet."""
        suspect = self._suspect
        if suspect is not None:
            peers = [one.data for one in self._brokers if one is not suspect]
            self._flips = [flip for flip in self._flips if not await asyncio.to_thread(is_repaired, flip, peers)]
        self._suspect = suspect if self._flips else None
        return self._suspect or self._brokers[fault.broker]

    async def _lie_while_all_are_down(self, fault: PlannedFault, broker: Broker, image: OldImage | None) -> None:
        with self._held(self._brokers):
            for one in self._brokers:
                one.kill()
            try:
                lie = await asyncio.to_thread(self._lie, fault, broker, image)
                self.lies.append(f"{fault.kind}, broker {broker.node_id}: {lie}")
                # Half of them restart at once, before their sessions expire.
                await asyncio.sleep(fault.lasts_s if fault.detail < 0.5 else 0)
            finally:
                for one in self._brokers:
                    one.start()

    def _lie(self, fault: PlannedFault, broker: Broker, image: OldImage | None) -> str:
        random = Random(fault.detail)
        if image is not None:
            return image.put_back()
        if fault.kind == "lost folder":
            return remove_partition(broker.data, random)
        flip = flip_bit(broker.data, random)
        self._suspect = broker
        self._flips.append(flip)
        return str(flip)

    async def _take_image(self, fault: PlannedFault, broker: Broker) -> OldImage:
        """An image of the disk while its process is paused, killed, or cleanly shut down."""
        image, choice = OldImage(broker.data), fault.detail * 10 % 1
        with self._held([broker]):
            if choice < _PAUSED:
                broker.signal(signal.SIGSTOP)
            else:
                await asyncio.to_thread(broker.kill if choice < _KILLED else broker.end)
            try:
                await asyncio.to_thread(image.take)
            finally:
                if choice < _PAUSED:
                    broker.signal(signal.SIGCONT)
                else:
                    broker.start()
        return image

    @contextmanager
    def _held(self, brokers: Sequence[Broker]) -> Iterator[None]:
        """Mark brokers as busy, so that `keep_alive` does not start them."""
        held = {one.node_id for one in brokers}
        self._busy |= held
        try:
            yield
        finally:
            self._busy -= held

    def _last_lie(self) -> str:
        return self.lies[-1] if self.lies else "no disk has lied"
