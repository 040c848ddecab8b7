"""The largest requests of every API, and requests with the largest answers.

Each has as many rows as the codec reads, once with existing names and once with unknown ones; names are doubled where
duplicates matter. Large batches, and small ones that decompress to much, are in `of_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.stalls.cases import Case
from bench.stalls.crowd import Crowd
from bench.stalls.of_bytes import of_bytes
from bench.stalls.of_consumers import of_consumers
from bench.stalls.of_groups import of_groups
from bench.stalls.of_records import of_records
from bench.stalls.of_topics import of_settings, of_topics
from bench.stalls.of_transactions import of_transactions


def cases(crowd: Crowd) -> Iterator[Case]:
    yield from of_records(crowd)
    yield from of_bytes(crowd)
    yield from of_transactions(crowd)
    yield from of_groups(crowd)
    yield from of_consumers(crowd)
    yield from of_topics()
    yield from of_settings(crowd)
