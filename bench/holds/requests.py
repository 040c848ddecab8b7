"""The largest requests of every API, and requests with the largest answers.

Each is made with as many rows as the codec still reads, once about what the crowd has and once about what nobody
has; names come in pairs where a name that comes twice is worth a look. Large batches, and small ones that inflate to
much, are `of_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.holds.cases import Case
from bench.holds.crowd import Crowd
from bench.holds.of_bytes import of_bytes
from bench.holds.of_consumers import of_consumers
from bench.holds.of_groups import of_groups
from bench.holds.of_records import of_records
from bench.holds.of_topics import of_settings, of_topics
from bench.holds.of_transactions import of_transactions


def cases(crowd: Crowd) -> Iterator[Case]:
    yield from of_records(crowd)
    yield from of_bytes(crowd)
    yield from of_transactions(crowd)
    yield from of_groups(crowd)
    yield from of_consumers(crowd)
    yield from of_topics()
    yield from of_settings(crowd)
