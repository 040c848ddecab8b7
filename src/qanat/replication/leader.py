"""The leader's view of one partition: how far each follower is, what is committed, which replicas should be in sync.

A follower's fetch says how much it has on its disk. The caller passes the leader's own offset each time, because the
log knows it. One change of the in-sync set is under way at a time; `stored` (with the state that holds now) and
`settled` say whether it was stored.

A follower has caught up when it fetches from the end of the log, or from what was the end at its fetch before. The
leader removes a follower that has not caught up for `lag_max_ms`. A follower joins when it has everything that is
committed, and everything up to the start of the leader's epoch (C11): before that it may hold records that the leader
does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

NEVER = -1
_UNKNOWN = -1


class Progress:
    """How far one follower is."""

    __slots__ = ("caught_up_ms", "end_before", "epoch", "fetched_ms", "offset", "start_offset")

    def __init__(self, now_ms: int) -> None:
        self.offset = _UNKNOWN
        """Everything below is on its disk."""
        self.start_offset = 0
        """Where its log starts."""
        self.epoch = NEVER
        """The broker epoch of its last fetch."""
        self.fetched_ms = now_ms
        self.end_before = 0
        """Where our log ended at its last fetch."""
        self.caught_up_ms = now_ms
        """When it last had everything; a new leader counts every follower as caught up at first."""


class Change(Struct, frozen=True):
    """An in-sync set to be stored: its node ids, and the broker epochs of its new members."""

    in_sync: tuple[int, ...]
    joined: Mapping[int, int]


class Leader:
    """The followers of one partition, in one leader epoch."""

    __slots__ = (
        "_epoch_start",
        "_followers",
        "_is_held",
        "_node_id",
        "_pending",
        "in_sync",
        "lag_max_ms",
        "min_in_sync",
        "replicas",
    )

    def __init__(self, node_id: int, epoch_start_offset: int, lag_max_ms: int) -> None:
        self._node_id = node_id
        self._epoch_start = epoch_start_offset
        self._followers: dict[int, Progress] = {}
        self._pending: tuple[int, ...] | None = None
        self._is_held = False
        self.lag_max_ms = lag_max_ms
        self.replicas: tuple[int, ...] = (node_id,)
        self.in_sync: tuple[int, ...] = (node_id,)
        self.min_in_sync = 1

    def stored(self, replicas: Sequence[int], in_sync: Sequence[int], now_ms: int, *, is_held: bool = False) -> None:
        """Apply what the store has; `is_held` while eligible replicas rely on nothing being committed (KIP-966).

        Where that changes nothing, a change under way stays under way: it may have been stored without our knowing it.
        """
        if (self.replicas, self.in_sync, self._is_held) != (tuple(replicas), tuple(in_sync), is_held):
            self._pending = None
        self.replicas = tuple(replicas)
        self.in_sync = tuple(in_sync)
        self._is_held = is_held
        for node_id in replicas:
            if node_id != self._node_id and node_id not in self._followers:
                self._followers[node_id] = Progress(now_ms)
        for node_id in [node_id for node_id in self._followers if node_id not in replicas]:
            del self._followers[node_id]

    def note_fetch(
        self, node_id: int, broker_epoch: int, offset: int, end_offset: int, now_ms: int, start_offset: int = 0
    ) -> bool:
        """A follower fetches from `offset` and has everything from `start_offset` on; False where it is no replica, or
        an old process."""
        follower = self._followers.get(node_id)
        if follower is None or broker_epoch < follower.epoch:
            return False
        if broker_epoch > follower.epoch:
            follower.epoch = broker_epoch
            follower.end_before = 0
        if offset >= end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        elif follower.end_before and offset >= follower.end_before:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.offset = offset
        follower.start_offset = start_offset
        follower.end_before = end_offset
        follower.fetched_ms = now_ms
        return True

    def committed(self, own_offset: int) -> int | None:
        """The offset up to which every member has everything; None while nothing can be committed."""
        if self._is_held or len(self.in_sync) < min(self.min_in_sync, len(self.replicas)):
            return None
        lowest = own_offset
        for node_id in self._maximal():
            if node_id != self._node_id:
                follower = self._followers.get(node_id)
                if follower is None or follower.offset == _UNKNOWN:
                    return None
                lowest = min(lowest, follower.offset)
        return lowest

    def shared_start(self, own_start: int) -> int:
        """The offset before which no member has records any more: the next leader does not bring them back."""
        others = [node_id for node_id in self._maximal() if node_id != self._node_id]
        starts = [follower.start_offset for node_id in others if (follower := self._followers.get(node_id)) is not None]
        return min(own_start, *starts) if starts else own_start

    def held_by(self, node_id: int) -> tuple[int, int]:
        """The range of offsets that a follower certainly has; an empty one where it has not fetched yet."""
        follower = self._followers.get(node_id)
        if follower is None or follower.offset == _UNKNOWN:
            return 0, _UNKNOWN
        return follower.start_offset, follower.offset

    def _maximal(self) -> tuple[int, ...]:
        return self.in_sync if self._pending is None else (*self.in_sync, *self._pending)

    # The in-sync set

    def change_wanted(
        self, alive: Mapping[int, int], high_watermark: int, end_offset: int, now_ms: int
    ) -> Change | None:
        """The in-sync set as it should be, where it differs; `alive` are the epochs of brokers that may be members.

        Until the change is `stored` or `settled`, no other one is wanted, and replicas that leave or join count for
        commitment in both sets.
        """
        if self._pending is not None:
            return None
        kept = [
            node_id
            for node_id in self.in_sync
            if node_id == self._node_id or not self._is_lagging(node_id, end_offset, now_ms)
        ]
        joined = {
            node_id: alive[node_id]
            for node_id in self.replicas
            if node_id not in self.in_sync and node_id in alive and self._may_join(node_id, alive, high_watermark)
        }
        if not joined and len(kept) == len(self.in_sync):
            return None
        self._pending = (*kept, *joined)
        return Change(self._pending, joined)

    def is_pending(self, change: Change) -> bool:
        """Whether this is the change under way: a state that was stored meanwhile may have replaced it."""
        return self._pending is change.in_sync

    def settled(self, change: Change) -> None:
        """The outcome of the change is known, and `stored` has applied the state that holds now."""
        if self.is_pending(change):
            self._pending = None

    @property
    def is_changing(self) -> bool:
        return self._pending is not None

    def _is_lagging(self, node_id: int, end_offset: int, now_ms: int) -> bool:
        follower = self._followers.get(node_id)
        if follower is None:
            return True
        return follower.offset < end_offset and now_ms - follower.caught_up_ms > self.lag_max_ms

    def _may_join(self, node_id: int, alive: Mapping[int, int], high_watermark: int) -> bool:
        follower = self._followers.get(node_id)
        if follower is None or follower.epoch != alive[node_id]:
            return False
        return follower.offset >= max(high_watermark, self._epoch_start)
