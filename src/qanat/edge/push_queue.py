"""A subscription in mode `queue`: records that the client holds, each in a frame of its own, and its verdicts.

The share group has the locks and counts the deliveries. This only knows which frame is which record.

Rule 1: a record is settled once, by the first verdict that ends its hold.
Rule 2: a record that is delivered again before its former frame is answered is settled by the new frame alone. Its lock
        had ended, or the log was cut there and has another record now.
Rule 3: what a client holds when its session ends is not settled: the share group gives it to another.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import WrongFrameError
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Verdict


class Held(NamedTuple):
    """A record that the client holds."""

    at: TopicPartition
    offset: int
    size: int


class PushQueue:
    """One subscription of one connection."""

    def __init__(self, credit: CreditWindow) -> None:
        self.credit = credit
        self.held: dict[int, Held] = {}
        self._latest: dict[tuple[TopicPartition, int], int] = {}
        """The latest frame of each record that is held."""
        self._last_id = 0
        self.acknowledged_id = 0

    def sent(self, held: Held) -> int:
        """A record leaves; returns the id of its frame."""
        self.credit.take(1, held.size)
        self._last_id += 1
        self.held[self._last_id] = held
        self._latest[held.at, held.offset] = self._last_id
        return self._last_id

    def settle(self, frame_id: int, verdict: Verdict) -> Held | None:
        """A verdict on a frame: the record that it is about; None where its hold has ended already."""
        if frame_id > self._last_id or frame_id < 1:
            raise WrongFrameError("unknown-id", f"ACK of frame {frame_id}, the last one sent is {self._last_id}")
        held = self.held.get(frame_id)
        if held is None:
            return None
        is_latest = self._latest.get((held.at, held.offset)) == frame_id
        if verdict is not Verdict.RENEW:
            del self.held[frame_id]
            self.credit.give_back(1, held.size)
            self.acknowledged_id = max(self.acknowledged_id, frame_id)
            if is_latest:
                del self._latest[held.at, held.offset]
        return held if is_latest else None
