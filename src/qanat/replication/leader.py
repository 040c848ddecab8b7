"""One partition as its leader sees it: how far each follower is, what is committed, who should be in sync.

A follower's fetch says how much it has on its disk. The leader's own part is told with every question,
because the log knows it. One change of the in-sync set is under way at a time; whether it was stored is
told by `stored` (with the state that holds now) and `settled`.

A follower has caught up when it asks for the end of the log, or for what was the end when it asked before; who has not
done so for `lag_max_ms` is dropped. It joins when it has everything committed, and everything up to the start of the
leader's epoch (C11): before that it may hold records that the leader does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

NEVER = -1
_UNKNOWN = -1


class Progress:
    """How far one follower is."""

    __slots__ = ("asked_ms", "caught_up_ms", "end_before", "epoch", "offset", "start_offset")

    def __init__(self, now_ms: int) -> None:
        self.offset = _UNKNOWN
        """Everything below is on its disk."""
        self.start_offset = 0
        """Where its copy starts."""
        self.epoch = NEVER
        """The broker's epoch in which it last asked."""
        self.asked_ms = now_ms
        self.end_before = 0
        """Where the log ended when it last asked."""
        self.caught_up_ms = now_ms
        """When it last had everything; a new leader gives everybody the benefit of the doubt."""


class Change(Struct, frozen=True):
    """An in-sync set to be stored: node ids, and the epochs in which those that are new asked."""

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
        """Take over what the store has; `is_held` while others count on nothing being committed (KIP-966).

        Where that is no news, a change that is under way still is: it may have been stored, unknown to us.
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

    def asked(
        self, node_id: int, broker_epoch: int, offset: int, end_offset: int, now_ms: int, start_offset: int = 0
    ) -> bool:
        """A follower asks for `offset`, having everything from `start_offset` on; False where it is none of ours, or an
        old process."""
        follower = self._followers.get(node_id)
        if follower is None or broker_epoch < follower.epoch:
            return False
        if broker_epoch > follower.epoch:
            follower.epoch = broker_epoch
            follower.end_before = 0
        if offset >= end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        elif follower.end_before and offset >= follower.end_before:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.asked_ms)
        follower.offset = offset
        follower.start_offset = start_offset
        follower.end_before = end_offset
        follower.asked_ms = now_ms
        return True

    def committed(self, own_offset: int) -> int | None:
        """Up to where every member has everything; None while nothing can be committed."""
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
        """From where on every member has forgotten what was before: whoever leads next does not bring it back."""
        others = [node_id for node_id in self._maximal() if node_id != self._node_id]
        starts = [follower.start_offset for node_id in others if (follower := self._followers.get(node_id)) is not None]
        return min(own_start, *starts) if starts else own_start

    def held_by(self, node_id: int) -> tuple[int, int]:
        """From where to where a follower certainly has everything; an empty range where it has not said."""
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
        """The set as it should be, where that is another one; `alive` are the epochs of brokers that may be members.

        Until it is `stored` or `settled`, nothing else is wanted, and what leaves or joins counts for
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
        """Whether this is the change that is under way: what was stored meanwhile may have overtaken it."""
        return self._pending is change.in_sync

    def settled(self, change: Change) -> None:
        """It is known whether the change was stored, and what holds now was told."""
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
