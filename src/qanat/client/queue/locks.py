"""Locks: which records a queue consumer holds, and until when.

The I/O loop and the user's threads share them. Each change is one operation on a dictionary, which the interpreter
makes whole; whoever removes a record from `held` decides its fate, the other side finds it gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from qanat.client.records import Record
from qanat.connection.share_sessions import Place, Verdicts


class Lock:
    """The lock that records share: those of one fetch, until they are handed out in parts."""

    __slots__ = ("acquired_at", "handed_at", "member_epoch", "until")

    def __init__(self, acquired_at: float, until: float, member_epoch: int) -> None:
        self.acquired_at = acquired_at
        """When it was acquired or renewed last, by the loop's clock."""
        self.until = until
        self.member_epoch = member_epoch
        self.handed_at: float | None = None
        """When its records were handed to the user; None while they wait in the buffer."""

    def handed_out(self, now: float) -> Lock:
        """The same lock, of records that are handed out now."""
        handed = Lock(self.acquired_at, self.until, self.member_epoch)
        handed.handed_at = now
        return handed


class VerdictTarget(Protocol):
    """The session with the broker that has the locks."""

    def acknowledge(self, locks: PartitionLocks, said: Verdicts) -> None: ...


class PartitionLocks:
    """The held records of one partition at the broker that locked them."""

    __slots__ = (
        "accepted",
        "at",
        "given",
        "held",
        "losses",
        "lost_end",
        "partition",
        "redelivered",
        "session",
        "topic",
    )

    def __init__(self, at: Place, topic: str, session: VerdictTarget) -> None:
        self.at = at
        self.topic = topic
        self.partition = at[1]
        self.session = session
        self.accepted: list[int] = []
        """Offsets that the user has accepted and the I/O loop has not seen: what nearly every verdict is.

        User threads append; the I/O loop copies the first ones and deletes as many, one operation each."""
        self.held: dict[int, Lock] = {}
        self.redelivered: dict[int, int] = {}
        """Delivery counts above one: a record of an earlier delivery is not the one that is held."""
        self.given: dict[int, Record[Any, Any] | None] = {}
        """The very records of deliveries that only this tells from earlier ones; None while they wait in the buffer.

        A broker that stops, and a new leader, do not count the delivery before: the next one has the same number.
        """
        self.lost_end = 0
        """Behind the last record that the user had when its lock was lost."""
        self.losses = 0
        """Changes whenever a record in the buffer may no longer be held."""

    def held_of(self, offsets: Sequence[int]) -> list[int]:
        """Those that are held already: they come again before their former lock is known to be over."""
        held = self.held
        if not held or held.keys().isdisjoint(offsets):
            return []
        return [offset for offset in offsets if offset in held]

    def hold(self, offsets: Sequence[int], lock: Lock, counts: int | Mapping[int, int]) -> None:
        """Records of a fetch, with their delivery counts: one number, or one for each."""
        if isinstance(counts, int):
            if counts > 1:
                self.redelivered.update(dict.fromkeys(offsets, counts))
        else:
            self.redelivered.update({offset: counts[offset] for offset in offsets if counts[offset] > 1})
        if offsets and offsets[0] < self.lost_end:
            again = [offset for offset in offsets if offset < self.lost_end]
            self.given.update(dict.fromkeys(again))
            for offset in again:
                self.redelivered.setdefault(offset, 1)
        self.held.update(dict.fromkeys(offsets, lock))  # Last: a verdict on an earlier delivery must not meet it.

    def hand_out(self, records: Iterable[Record[Any, Any]]) -> None:
        """The user has these from now on."""
        if self.given:
            self.given.update({one.offset: one for one in records if one.offset in self.given})

    def holds(self, record: Record[Any, Any]) -> bool:
        """Whether this very delivery is held."""
        offset = record.offset
        if offset not in self.held or self.redelivered.get(offset, 1) != record.delivery_count:
            return False
        return offset not in self.given or self.given[offset] is record

    def lose(self, offset: int) -> bool:
        """Its lock is lost; whether the user has the record."""
        lock = self.take(offset)
        if lock is None or lock.handed_at is None:
            return False
        self.lost_end = max(self.lost_end, offset + 1)
        return True

    def take(self, offset: int) -> Lock | None:
        """Hold it no longer; None where it was not held."""
        self.losses += 1
        self.redelivered.pop(offset, None)
        self.given.pop(offset, None)
        return self.held.pop(offset, None)

    def by_lock(self) -> Iterator[tuple[Lock, list[int]]]:
        """Held offsets by their lock."""
        found: dict[int, tuple[Lock, list[int]]] = {}
        for offset, lock in list(self.held.items()):
            found.setdefault(id(lock), (lock, []))[1].append(offset)
        yield from found.values()
