"""Virtual time, machines that die, and links between them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from qanat.testing.simulation.links import SimLink

SILENCE_MS = 35_000
"""How long a process waits for a byte before it gives a request up."""

Act = Callable[[], None]


class EdgeMismatchError(AssertionError):
    """Something that must hold does not."""


class Machine:
    """A machine: what is scheduled for a process ends with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 0
        """Counts processes; odd while one runs."""

    @property
    def is_up(self) -> bool:
        return self.life % 2 == 1


class World:
    """Everything that happens, in order of time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 0
        self._events: list[tuple[int, int, Act]] = []
        self._number = 0
        self._links: dict[tuple[str, str], SimLink] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._last_cut_ms: dict[tuple[str, str], int] = {}
        self._parked: dict[str, list[Act]] = {}
        self.faults: dict[str, int] = {}

    def note(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def after(self, delay_ms: int, act: Act, owner: Machine | None = None) -> None:
        """Do something later, unless its owner's process has ended by then."""
        life = None if owner is None else owner.life

        def guarded() -> None:
            if owner is None or owner.life == life:
                act()

        self._number += 1
        heappush(self._events, (self.now_ms + max(0, delay_ms), self._number, guarded))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, act = heappop(self._events)
            act()
        self.now_ms = end_ms

    def park(self, machine: Machine, longest_ms: int, act: Act) -> None:
        """Do something when the machine has more to read, or the time is up."""
        done: list[None] = []

        def once() -> None:
            if not done:
                done.append(None)
                act()

        self._parked.setdefault(machine.name, []).append(once)
        self.after(longest_ms, once, machine)

    def wake(self, machine: Machine) -> None:
        for act in self._parked.pop(machine.name, []):
            self.after(0, act, machine)

    # Links

    def link(self, way: tuple[str, str]) -> SimLink:
        found = self._links.get(way)
        if found is None:
            found = self._links[way] = SimLink(self.random, delay_s=0.002)
        return found

    def cut(self, one: str, other: str, *, is_one_way: bool = False) -> None:
        for way in ((one, other),) if is_one_way else ((one, other), (other, one)):
            self._cut[way] = None
            self._last_cut_ms[way] = self.now_ms

    def heal(self, one: str, other: str) -> None:
        self._cut.pop((one, other), None)
        self._cut.pop((other, one), None)

    def heal_all(self) -> None:
        self._cut.clear()
        self._links.clear()

    def send(self, source: Machine, target: Machine, size: int, deliver: Act, lost: Act) -> None:
        """Deliver to the process that runs there when it arrives. The sender learns of a refused connection at once,
        and of silence after its timeout."""
        way = (source.name, target.name)
        if way in self._cut:
            self.after(SILENCE_MS, lost, source)
            return
        sent_ms, life = self.now_ms, source.life
        arrives_ms = round(self.link(way).arrival_s(sent_ms / 1000, size) * 1000)

        def arrive() -> None:
            if way in self._cut or self._last_cut_ms.get(way, -1) >= sent_ms:
                if source.life == life:
                    self.after(SILENCE_MS, lost, source)
            elif not target.is_up:
                if source.life == life:
                    self.after(1, lost, source)
            else:
                deliver()

        self.after(arrives_ms - sent_ms, arrive)
