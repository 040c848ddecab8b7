"""What survives every process: logs with leader epochs, the group's commits, the queue's settled records."""

from __future__ import annotations

from dataclasses import dataclass, field

from qanat.edge.push_session import Place
from qanat.edge.resume import Extent
from qanat.model.ids import TopicPartition

TOPIC = "prices"


class PushMismatchError(AssertionError):
    """Something that must hold does not."""


@dataclass
class ModelLog:
    """One partition: values with the epochs they were written in."""

    records: list[tuple[int, int]] = field(default_factory=list)
    epoch: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def extent(self, epoch: int) -> Extent:
        ended = None if epoch < 0 else sum(1 for one, _ in self.records if one <= epoch)
        return Extent(0, self.end, ended)


@dataclass
class Durable:
    """The state of the cluster."""

    logs: dict[TopicPartition, ModelLog]
    commits: dict[TopicPartition, Place] = field(default_factory=dict)
    processed: dict[int, None] = field(default_factory=dict)
    """Values that a member of the group has processed."""
    settled: dict[int, None] = field(default_factory=dict)
    """Values of the queue that are accepted."""
    worked: dict[int, None] = field(default_factory=dict)
    """Values that a worker of the queue has processed."""
    next_value: int = 0

    def append(self, at: TopicPartition) -> None:
        log = self.logs[at]
        log.records.append((log.epoch, self.next_value))
        self.next_value += 1

    def truncate(self, at: TopicPartition, count: int) -> None:
        """An unclean election: the new leader lacks the last records."""
        log = self.logs[at]
        del log.records[max(0, log.end - count) :]
        log.epoch += 1

    def commit(self, at: TopicPartition, place: Place) -> None:
        """A commit of the group: everything below it must have been processed."""
        self.commits[at] = place
        records = self.logs[at].records
        if not 0 < place.offset <= len(records) or records[place.offset - 1][0] != place.epoch:
            return  # It is about records that an unclean election has removed.
        for offset, (_, value) in enumerate(records[: place.offset]):
            if value not in self.processed:
                raise PushMismatchError(f"{at} is committed up to {place.offset}, but {offset} was not processed")

    def settle(self, value: int) -> None:
        if value not in self.worked:
            raise PushMismatchError(f"value {value} of the queue is settled, but no worker has processed it")
        self.settled[value] = None
