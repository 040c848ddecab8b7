"""Messages between a run and its workers: one line of JSON each, over their standard streams.

Nothing here is slow to import: every worker is a new process.
"""

from __future__ import annotations

from msgspec import Struct, field


class Amount(Struct, frozen=True):
    """How much: so many records, or so many seconds; with both None, until stopped."""

    records: int | None = None
    seconds: float | None = None

    @property
    def is_nothing(self) -> bool:
        return self.records == 0 or self.seconds == 0

    def shared(self, parts: int) -> list[Amount]:
        """The amount split over several clients: records are divided, seconds are the same for all."""
        if self.records is None:
            return [self] * parts
        each, more = divmod(self.records, parts)
        return [Amount(each + (number < more), self.seconds) for number in range(parts)]


class ProduceTask(Struct, frozen=True, tag="produce"):
    """The task of a producing client."""

    topic: str
    settings: dict[str, str]
    size: int
    amount: Amount
    warmup: Amount
    rate: float = 0.0
    """Records a second; 0 is without a limit."""
    stamp: str = ""
    """Hexadecimal mark of this run; records begin with it and the time at which they should be sent."""
    transaction_s: float = 0.0
    """Duration of a transaction; 0 for none."""
    timeout_s: float = 15.0


class ConsumeTask(Struct, frozen=True, tag="consume"):
    """The task of a consuming client: these partitions from these offsets, or those that its group assigns."""

    topic: str
    settings: dict[str, str]
    amount: Amount
    warmup: Amount
    offsets: dict[int, int] = field(default_factory=dict)
    is_member: bool = False
    is_live: bool = False
    """More records follow: the end of a partition is not the end."""
    stamp: str = ""
    timeout_s: float = 15.0


Task = ProduceTask | ConsumeTask


class WorkerTasks(Struct, frozen=True):
    """The tasks of one worker: each task is a client of its own."""

    tasks: list[Task]


class Ready(Struct, frozen=True, tag="ready"):
    """Connected and warmed up."""


class Progress(Struct, frozen=True, tag="progress"):
    """Counts so far, without the warm-up."""

    records: int
    size_bytes: int
    errors: int


class Outcome(Struct, frozen=True, tag="outcome"):
    """The outcome of a task. Times are of the monotonic clock, which all processes of a machine share."""

    began_s: float
    ended_s: float
    records: int
    size_bytes: int
    errors: dict[str, int]
    """Counts by reason."""
    latencies: str = ""
    largest_us: int = 0
    commits: int = 0
    commit_latencies: str = ""
    commit_largest_us: int = 0
    first_record_s: float | None = None
    """Seconds until the first record."""
    complaint: str = ""
    """Why it ended early."""


class Failed(Struct, frozen=True, tag="failed"):
    """The worker could not start."""

    reason: str


WorkerMessage = Ready | Progress | Outcome | Failed

STAMP_BYTES = 16
"""Records of an end-to-end run begin with the mark of the run and the nanosecond at which they should be sent."""
GO = "go"
STOP = "stop"


def librdkafka_reason(fault: Exception) -> str:
    """The reason of a librdkafka error, as one sentence."""
    error = fault.args[0] if fault.args else fault
    text = error.str() if hasattr(error, "str") else str(error)
    return " ".join(text.split())
