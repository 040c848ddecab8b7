"""Fault injection into a real cluster, by kind.

Rule: a fault heals itself when it is cancelled, so that an interrupted run can heal.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from verify.chaos.brokers import Broker
from verify.chaos.convergence import Convergence
from verify.chaos.disk import Condition
from verify.chaos.lying_disks import LyingDisks
from verify.chaos.network import HOST, Direction, Network, both_directions
from verify.chaos.plan import LYING_KINDS, PlannedFault
from verify.chaos.stores import Store

_LOOK_S = 0.05
_STOP_S = 20.0
_QUIET_S = 60.0
"""Longer than any active fault needs to end."""
_NOTICE_S = 3.0
"""How long a broker has to notice that its disk fails, after the fault."""


class Faults:
    """All faults of a run, active and past."""

    def __init__(self, brokers: Sequence[Broker], network: Network, store: Store, convergence: Convergence) -> None:
        self._brokers, self._network, self._store = brokers, network, store
        self._busy: set[int] = set()
        """Brokers with an active fault."""
        self.lying = LyingDisks(brokers, convergence, self._busy)
        self._store_lock = asyncio.Lock()
        self.now: list[str] = []
        """Kinds of active faults."""
        self.done: Counter[str] = Counter()
        self.notes: list[str] = []
        """Events that no fault explains."""
        self._kinds: dict[str, Callable[[PlannedFault, Broker], Awaitable[None]]] = {
            "kill": self._kill,
            "pause": self._pause,
            "partition": self._partition,
            "one-way": self._one_way,
            "disk full": self._fill_disk,
            "fsync error": self._fail_syncs,
            "stop": self._stop,
        }

    async def inject(self, fault: PlannedFault) -> None:
        """Inject a fault and heal it; on another broker where the drawn one has an active fault."""
        if fault.kind == "store":
            await self._inject_store_fault(fault)
            return
        if fault.kind in LYING_KINDS:
            await self._inject_lying_disk(fault)
            return
        await _becomes_true(lambda: bool(self._free()), _STOP_S)
        broker = min(self._free(), key=lambda one: (one.node_id - fault.broker) % len(self._brokers))
        self._busy.add(broker.node_id)
        try:
            with self._counted(fault.kind):
                await self._kinds[fault.kind](fault, broker)
        finally:
            self._busy.discard(broker.node_id)

    def _free(self) -> list[Broker]:
        return [one for one in self._brokers if one.node_id not in self._busy]

    async def _inject_store_fault(self, fault: PlannedFault) -> None:
        async with self._store_lock:
            with self._counted(fault.kind):
                await self._store.fail(fault.lasts_s)

    async def _inject_lying_disk(self, fault: PlannedFault) -> None:
        """Wait until no fault is active, and let a disk lie; the caller injects nothing else meanwhile."""
        is_quiet = await _becomes_true(lambda: not self.now and not self._busy, _QUIET_S)
        assert is_quiet, f"{self.now} are still active"
        if await self.lying.await_in_sync():
            with self._counted(fault.kind):
                await self.lying.inject(fault)

    @contextmanager
    def _counted(self, kind: str) -> Iterator[None]:
        self.now.append(kind)
        self.done[kind] += 1
        try:
            yield
        finally:
            self.now.remove(kind)

    async def keep_alive(self) -> None:
        """Restart brokers that end, or give their disk up, without an active fault; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for broker in self._brokers:
                if broker.node_id in self._busy:
                    continue
                if not broker.is_running:
                    self.notes.append(
                        f"broker {broker.node_id} ended by itself ({broker.exit_code}): {broker.last_log_line()}"
                    )
                    broker.start()
                elif broker.has_failed_directory:
                    self.notes.append(f"broker {broker.node_id} gave its disk up late")
                    broker.kill()
                    broker.start()

    # Processes

    async def _kill(self, fault: PlannedFault, broker: Broker) -> None:
        broker.kill()
        try:
            # Half of them restart at once, before the cluster notices.
            await asyncio.sleep(fault.lasts_s if fault.detail < 0.5 else 0)
        finally:
            broker.start()

    async def _stop(self, fault: PlannedFault, broker: Broker) -> None:
        broker.signal(signal.SIGTERM)
        try:
            if not await _becomes_true(lambda: not broker.is_running, _STOP_S):
                self.notes.append(f"broker {broker.node_id} did not stop in {_STOP_S:.0f} s: {broker.last_log_line()}")
        finally:
            broker.kill()
            broker.start()

    async def _pause(self, fault: PlannedFault, broker: Broker) -> None:
        broker.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            broker.signal(signal.SIGCONT)

    # The network

    async def _partition(self, fault: PlannedFault, broker: Broker) -> None:
        """Cut a broker off from its peers; sometimes from the store and from clients as well."""
        others = self._peers(broker)
        if fault.detail < 0.6 and self._store.machine is not None:
            others.append(self._store.machine)
        if fault.detail < 0.3:
            others.append(HOST)
        await self._cut(both_directions(broker.machine, others), fault.lasts_s)

    async def _one_way(self, fault: PlannedFault, broker: Broker) -> None:
        """Cut one direction, to or from one or both peers; sometimes to or from the store alone."""
        others = self._peers(broker)
        if fault.detail < 0.25 and self._store.machine is not None:
            others = [self._store.machine]
        elif fault.detail < 0.5:
            others = others[:1]
        is_outwards = int(fault.detail * 100) % 2 == 0
        directions = [(broker.machine, other) if is_outwards else (other, broker.machine) for other in others]
        await self._cut(directions, fault.lasts_s)

    def _peers(self, broker: Broker) -> list[str]:
        return [one.machine for one in self._brokers if one is not broker]

    async def _cut(self, directions: Sequence[Direction], seconds: float) -> None:
        self._network.cut(directions)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._network.join(directions)

    # Disks

    async def _fill_disk(self, fault: PlannedFault, broker: Broker) -> None:
        broker.disk.become(Condition.FULL)
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            broker.disk.become(Condition.WELL)
        await self._replace_if_failed(fault, broker)

    async def _fail_syncs(self, fault: PlannedFault, broker: Broker) -> None:
        """Fail fsync. The broker then accepts nothing any more, by design: it is restarted, as an operator would."""
        broker.disk.become(Condition.UNSYNCED)
        try:
            await asyncio.sleep(fault.lasts_s)
            await _becomes_true(lambda: not broker.is_running or broker.has_failed_directory, _NOTICE_S)
        finally:
            broker.disk.become(Condition.WELL)
        await self._replace_if_failed(fault, broker)

    async def _replace_if_failed(self, fault: PlannedFault, broker: Broker) -> None:
        if broker.is_running and not broker.has_failed_directory:
            return
        if fault.detail < 0.5:
            broker.kill()
            broker.start()
        else:
            await self._stop(fault, broker)


async def _becomes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; returns whether it came true in time."""
    for _ in range(int(seconds / _LOOK_S)):
        if condition():
            return True
        await asyncio.sleep(_LOOK_S)
    return condition()
