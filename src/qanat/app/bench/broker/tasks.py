"""What a worker is told, and what it tells: one line of JSON each, over its standard streams.

Nothing here is heavy to import: a worker is a new process, and somebody waits for it.
"""

from __future__ import annotations

from msgspec import Struct, field


class Amount(Struct, frozen=True):
    """How much: so many records, or so many seconds; both None is until told to stop."""

    records: int | None = None
    seconds: float | None = None

    @property
    def is_nothing(self) -> bool:
        return self.records == 0 or self.seconds == 0

    def shared(self, parts: int) -> list[Amount]:
        """The same done by several: records are divided, seconds pass for all of them."""
        if self.records is None:
            return [self] * parts
        each, more = divmod(self.records, parts)
        return [Amount(each + (number < more), self.seconds) for number in range(parts)]


class ProduceTask(Struct, frozen=True, tag="produce"):
    """A client that writes."""

    topic: str
    settings: dict[str, str]
    size: int
    amount: Amount
    warmup: Amount
    rate: float = 0.0
    """Records a second; 0 is as fast as it goes."""
    stamp: str = ""
    """Hexadecimal mark of this run; records begin with it and the time they were meant to be sent at."""
    transaction_s: float = 0.0
    """How long a transaction is open; 0 for none."""
    patience_s: float = 15.0


class ConsumeTask(Struct, frozen=True, tag="consume"):
    """A client that reads: these partitions from these offsets, or what the group gives to it."""

    topic: str
    settings: dict[str, str]
    amount: Amount
    warmup: Amount
    offsets: dict[int, int] = field(default_factory=dict)
    is_member: bool = False
    is_live: bool = False
    """More will come: the end of a partition is not the end."""
    stamp: str = ""
    patience_s: float = 15.0


Task = ProduceTask | ConsumeTask


class Crewed(Struct, frozen=True):
    """What one worker is to do: each task is a client of its own."""

    tasks: list[Task]


class Ready(Struct, frozen=True, tag="ready"):
    """Connected and warmed up."""


class Progress(Struct, frozen=True, tag="progress"):
    """How far it is: what counts, without warming up."""

    records: int
    size_bytes: int
    errors: int


class Outcome(Struct, frozen=True, tag="outcome"):
    """What came of it. Times are of the steady clock, which all processes of a machine share."""

    began_s: float
    ended_s: float
    records: int
    size_bytes: int
    errors: dict[str, int]
    """How often, by reason."""
    latencies: str = ""
    largest_us: int = 0
    commits: int = 0
    commit_latencies: str = ""
    commit_largest_us: int = 0
    first_record_s: float | None = None
    """After how many seconds the first record came."""
    complaint: str = ""
    """Why it ended before its time."""


class Failed(Struct, frozen=True, tag="failed"):
    """It could not begin."""

    reason: str


Told = Ready | Progress | Outcome | Failed

STAMP_BYTES = 16
"""Records that are followed to their end begin with the mark of a run and the nanosecond they were to be sent at."""
GO = "go"
STOP = "stop"


def refusal(fault: Exception) -> str:
    """What librdkafka has to say, as one sentence."""
    error = fault.args[0] if fault.args else fault
    told = error.str() if hasattr(error, "str") else str(error)
    return " ".join(told.split())
