"""Which dead letters: by origin, reason and condition. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from qanat.connection.records.filter_expression import Condition
from qanat.model.dead_letters import Letter
from qanat.wire.records import Record


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Every condition that is set must hold."""

    origin: str | None = None
    """The topic that letters come from."""
    origin_partition: int | None = None
    group: str | None = None
    """The group that gave them up."""
    error: str | None = None
    """A part of the reason, in any case."""
    condition: Condition | None = None
    """On the letter's record: its key, value, headers, partition and offset in the topic of dead letters."""

    def wants(self, partition: int, record: Record, letter: Letter) -> bool:
        origin = letter.origin
        if self.origin is not None and origin.topic != self.origin:
            return False
        if self.origin_partition is not None and origin.partition != self.origin_partition:
            return False
        if self.group is not None and origin.group != self.group:
            return False
        if self.error is not None and self.error.casefold() not in origin.message.casefold():
            return False
        return self.condition is None or self.condition.holds(partition, record)


EVERY_LETTER = LetterSelection()
