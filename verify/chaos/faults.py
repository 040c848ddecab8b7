"""What each kind of fault does to a cluster, and how it is undone.

Rule: whatever a fault has done is undone when it is cancelled, so that a run that is interrupted can heal.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from verify.chaos.brokers import Broker
from verify.chaos.disk import Condition
from verify.chaos.lying_disks import LyingDisks
from verify.chaos.network import HOST, Direction, Network, both_ways
from verify.chaos.plan import LYING_KINDS, PlannedFault
from verify.chaos.stores import Store
from verify.chaos.wholeness import Wholeness

_LOOK_S = 0.05
_STOP_S = 20.0
_QUIET_S = 60.0
"""Longer than any fault that is at work needs to end."""
_GIVE_UP_S = 3.0
"""How long a broker has to notice that its disk fails, beyond the fault's own time."""


class Faults:
    """All faults of a run: those that are at work, and what there was."""

    def __init__(self, brokers: Sequence[Broker], network: Network, store: Store, wholeness: Wholeness) -> None:
        self._brokers, self._network, self._store = brokers, network, store
        self._struck: set[int] = set()
        """Brokers that a fault has to itself."""
        self.lying = LyingDisks(brokers, wholeness, self._struck)
        self._store_turns = asyncio.Lock()
        self.now: list[str] = []
        """Kinds that are at work."""
        self.done: Counter[str] = Counter()
        self.notes: list[str] = []
        """What happened that no fault explains."""
        self._kinds: dict[str, Callable[[PlannedFault, Broker], Awaitable[None]]] = {
            "kill": self._kill,
            "pause": self._pause,
            "partition": self._partition,
            "one-way": self._one_way,
            "disk full": self._fill_disk,
            "fsync error": self._fail_syncs,
            "stop": self._stop,
        }

    async def strike(self, fault: PlannedFault) -> None:
        """Do it and undo it. Takes another broker where the one that was drawn has its own trouble."""
        if fault.kind == "store":
            await self._strike_store(fault)
            return
        if fault.kind in LYING_KINDS:
            await self._strike_all(fault)
            return
        await _comes_true(lambda: bool(self._free()), _STOP_S)
        broker = min(self._free(), key=lambda one: (one.node_id - fault.broker) % len(self._brokers))
        self._struck.add(broker.node_id)
        try:
            with self._counted(fault.kind):
                await self._kinds[fault.kind](fault, broker)
        finally:
            self._struck.discard(broker.node_id)

    def _free(self) -> list[Broker]:
        return [one for one in self._brokers if one.node_id not in self._struck]

    async def _strike_store(self, fault: PlannedFault) -> None:
        async with self._store_turns:
            with self._counted(fault.kind):
                await self._store.fail(fault.lasts_s)

    async def _strike_all(self, fault: PlannedFault) -> None:
        """Whoever calls this has nothing else strike meanwhile; what is at work is waited for."""
        is_quiet = await _comes_true(lambda: not self.now and not self._struck, _QUIET_S)
        assert is_quiet, f"{self.now} are still at work"
        if await self.lying.await_whole():
            with self._counted(fault.kind):
                await self.lying.strike(fault)

    @contextmanager
    def _counted(self, kind: str) -> Iterator[None]:
        self.now.append(kind)
        self.done[kind] += 1
        try:
            yield
        finally:
            self.now.remove(kind)

    async def keep_alive(self) -> None:
        """Start brokers again that end, or give their disk up, while no fault has them; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for broker in self._brokers:
                if broker.node_id in self._struck:
                    continue
                if not broker.is_running:
                    self.notes.append(
                        f"broker {broker.node_id} ended by itself ({broker.exit_code}): {broker.last_words()}"
                    )
                    broker.start()
                elif broker.has_given_up:
                    self.notes.append(f"broker {broker.node_id} gave its disk up late")
                    broker.kill()
                    broker.start()

    # What ends a process

    async def _kill(self, fault: PlannedFault, broker: Broker) -> None:
        broker.kill()
        try:
            # Half of them come back at once, before anybody has missed them.
            await asyncio.sleep(fault.lasts_s if fault.detail < 0.5 else 0)
        finally:
            broker.start()

    async def _stop(self, fault: PlannedFault, broker: Broker) -> None:
        broker.signal(signal.SIGTERM)
        try:
            if not await _comes_true(lambda: not broker.is_running, _STOP_S):
                self.notes.append(f"broker {broker.node_id} did not stop in {_STOP_S:.0f} s: {broker.last_words()}")
        finally:
            broker.kill()
            broker.start()

    async def _pause(self, fault: PlannedFault, broker: Broker) -> None:
        broker.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            broker.signal(signal.SIGCONT)

    # What cuts connections

    async def _partition(self, fault: PlannedFault, broker: Broker) -> None:
        """From its peers; now and then from the store and from clients as well."""
        others = self._peers(broker)
        if fault.detail < 0.6 and self._store.machine is not None:
            others.append(self._store.machine)
        if fault.detail < 0.3:
            others.append(HOST)
        await self._cut(both_ways(broker.machine, others), fault.lasts_s)

    async def _one_way(self, fault: PlannedFault, broker: Broker) -> None:
        """To or from its peers, one or both; now and then the store alone."""
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

    # What strikes a disk

    async def _fill_disk(self, fault: PlannedFault, broker: Broker) -> None:
        broker.disk.become(Condition.FULL)
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            broker.disk.become(Condition.WELL)
        await self._replace_if_given_up(fault, broker)

    async def _fail_syncs(self, fault: PlannedFault, broker: Broker) -> None:
        """A broker whose sync failed accepts nothing any more, by design: it is replaced, as an operator would."""
        broker.disk.become(Condition.UNSYNCED)
        try:
            await asyncio.sleep(fault.lasts_s)
            await _comes_true(lambda: not broker.is_running or broker.has_given_up, _GIVE_UP_S)
        finally:
            broker.disk.become(Condition.WELL)
        await self._replace_if_given_up(fault, broker)

    async def _replace_if_given_up(self, fault: PlannedFault, broker: Broker) -> None:
        if broker.is_running and not broker.has_given_up:
            return
        if fault.detail < 0.5:
            broker.kill()
            broker.start()
        else:
            await self._stop(fault, broker)


async def _comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it does in time."""
    for _ in range(int(seconds / _LOOK_S)):
        if condition():
            return True
        await asyncio.sleep(_LOOK_S)
    return condition()
