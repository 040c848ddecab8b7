"""Which records `qanat consume` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qanat.connection.records.filter_expression import Condition
from qanat.wire.records import Record


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records to print: every condition must hold."""

    value: re.Pattern[bytes] | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Names, each with the value that a header of that name must have; None for any value."""
    condition: Condition | None = None

    def wants(self, partition: int, record: Record) -> bool:
        if self.value is not None and self.value.search(record.value or b"") is None:
            return False
        if self.key is not None and record.key != self.key:
            return False
        if not all(_has(record, name, content) for name, content in self.headers):
            return False
        return self.condition is None or self.condition.holds(partition, record)


def _has(record: Record, wanted: str, content: bytes | None) -> bool:
    return any(name == wanted and (content is None or value == content) for name, value in record.headers)
