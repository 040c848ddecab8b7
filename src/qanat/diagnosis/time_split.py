"""The time of requests, by cause: what is measured by API, and what was seen at each look, put together.

Waits that an API exists for (a fetch waits for records, a join for other members) are the client's, not the broker's.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import asdict

from qanat.diagnosis.window import BrokerWindow

BY_DESIGN = frozenset({"FETCH", "SHARE_FETCH", "JOIN_GROUP", "SYNC_GROUP", "CONSUMER_GROUP_HEARTBEAT"})
"""APIs whose answer may take as long as the client allows."""


class TimeSplit(Struct, frozen=True):
    """Seconds that requests spent, by what they spent them on."""

    queue: float = 0.0
    """Ready, while the event loop did something else."""
    loop: float = 0.0
    """Worked on by the event loop."""
    disk: float = 0.0
    """Until this broker had flushed their records."""
    replication: float = 0.0
    """Until the in-sync followers had."""
    throttle: float = 0.0
    """Not read, because unanswered requests held too much memory."""
    cold_read: float = 0.0
    """Until records were read from disk."""
    store: float = 0.0
    """Until the metadata store had committed."""
    other: float = 0.0
    """What nothing of this explains: other coordinators, locks, workers."""
    client: float = 0.0
    """Waits that clients ask for: for new records, for other members."""

    @property
    def busy(self) -> float:
        """All but what clients ask for."""
        return sum([float(seconds) for cause, seconds in asdict(self).items() if cause != "client"])

    def share(self, cause: str) -> float:
        """The share of a cause in all but what clients ask for."""
        seconds: float = getattr(self, cause)
        return seconds / self.busy if self.busy else 0.0


def split_of(window: BrokerWindow) -> TimeSplit:
    """The split of one broker."""
    waits = window.waits
    asked = sum(api.seconds - api.loop_seconds for name, api in window.apis.items() if name in BY_DESIGN)
    waited = sum(api.seconds - api.loop_seconds for name, api in window.apis.items() if name not in BY_DESIGN)
    return TimeSplit(
        queue=window.late_s * window.requests,
        loop=window.loop_seconds,
        disk=waits.disk,
        replication=waits.followers,
        throttle=waits.paused,
        cold_read=waits.cold_reads,
        store=waits.store,
        other=max(0.0, waited - waits.disk - waits.followers - waits.store),
        client=max(0.0, asked - waits.cold_reads),
    )


def total_of(splits: Iterable[TimeSplit]) -> TimeSplit:
    """The split of several brokers."""
    sums = dict.fromkeys(TimeSplit.__struct_fields__, 0.0)
    for split in splits:
        for cause, seconds in asdict(split).items():
            sums[cause] += seconds
    return TimeSplit(**sums)
