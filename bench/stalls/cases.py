"""One kind of request by the number of its rows, and unknown names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qanat.api.api_table import SERVED
from qanat.model.errors import QanatError
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.registry import ApiKey

ROWS_MAX = 200_000
TIMEOUT_MS = 60_000
_ROWS_STEP = 500
_NAMES_UNTIL = 12
"""Topics are named by their names up to here, in Produce and Fetch."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request, by the number of its rows."""

    key: ApiKey
    what: str
    make: Callable[[int], Any]
    rows_max: int = ROWS_MAX
    version_max: int | None = None
    """A version before the newest, where the newest holds less."""

    @property
    def version(self) -> int:
        if self.version_max is not None:
            return self.version_max
        return _NAMES_UNTIL if self.key in (ApiKey.PRODUCE, ApiKey.FETCH) else SERVED[self.key].last_version

    @property
    def name(self) -> str:
        return SERVED[self.key].api.name

    def largest(self) -> tuple[int, bytes]:
        """The most rows that the codec reads, and their frame."""
        low, high = 1, self.rows_max
        if self._is_read(high):
            low = high
        while high - low > _ROWS_STEP:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_read(middle) else (low, middle)
        return low, b"".join(frame_request(self.key, self.version, 1, "bench", [self._body(low)]))

    def _body(self, rows: int) -> bytes:
        return b"".join(SERVED[self.key].api.codec.write_request(self.make(rows), self.version))

    def _is_read(self, rows: int) -> bool:
        try:
            SERVED[self.key].api.codec.read_request(memoryview(self._body(rows)), self.version)
        except QanatError:
            return False
        return True


def unknown_names(rows: int) -> list[str]:
    """Names that do not exist."""
    return [f"s{number}" for number in range(rows)]


def twins(rows: int) -> list[str]:
    """Every name twice."""
    return [f"s{number // 2}" for number in range(rows)]
