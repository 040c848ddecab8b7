"""A simulated link: one direction of a path between two machines, with a rate, a delay and loss.

Everything that is sent over a link shares its rate: a large answer delays what is sent behind it, as on a modem. A lost
segment is sent again after TCP's timeout, which doubles; nothing is reordered, and nothing disappears. Two links with
different rates make an asymmetric path.
"""

from __future__ import annotations

from random import Random

_SEGMENT_BYTES = 1460
_RETRY_S, _LONGEST_RETRY_S = 0.2, 60.0


class SimLink:
    """One direction."""

    def __init__(
        self, random: Random, *, rate_bytes_per_s: float = 0.0, loss: float = 0.0, delay_s: float = 0.0
    ) -> None:
        """Without a rate, sending takes no time; `loss` is the share of segments that is lost, below 1."""
        assert 0 <= loss < 1, loss
        self._random = random
        self.rate_bytes_per_s = rate_bytes_per_s
        self.loss = loss
        self.delay_s = delay_s
        self._free_s = 0.0
        """When the link has sent everything that was given to it."""

    def arrival_s(self, now_s: float, size: int) -> float:
        """When `size` bytes that are sent now have arrived, whole."""
        begun = max(now_s, self._free_s)
        took = size / self.rate_bytes_per_s if self.rate_bytes_per_s else 0.0
        self._free_s = begun + took + self._lost_s(size)
        return self._free_s + self.delay_s

    def _lost_s(self, size: int) -> float:
        if not self.loss:
            return 0.0
        waited = 0.0
        for _ in range(1 + size // _SEGMENT_BYTES):
            retry = _RETRY_S
            while self._random.random() < self.loss:
                waited += retry
                retry = min(2 * retry, _LONGEST_RETRY_S)
        return waited
