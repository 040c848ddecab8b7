"""A volatile catalogue: for the `memory` storage engine and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qanat.log.directories.catalogue import PartitionRow


class MemoryCatalogue:
    """Rows in a list."""

    def __init__(self) -> None:
        self._generation = ""
        self._rows: list[PartitionRow] = []

    def load(self, generation: str) -> Iterator[PartitionRow]:
        return iter(self._rows if generation == self._generation else [])

    def save(self, generation: str, rows: Iterable[PartitionRow]) -> None:
        self._generation = generation
        self._rows = list(rows)
