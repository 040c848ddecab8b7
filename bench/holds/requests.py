"""The largest requests of every API, and requests with the largest answers.

Each is made with as many rows as the codec still reads, once about what the crowd has and once about what nobody
has; names come in pairs where a name that comes twice is worth a look.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.holds.cases import Case
from bench.holds.crowd import Crowd
from bench.holds.of_groups import of_groups
from bench.holds.of_records import of_records
from bench.holds.of_topics import of_settings, of_topics


def cases(crowd: Crowd) -> Iterator[Case]:
    yield from of_records(crowd)
    yield from of_groups(crowd)
    yield from of_topics()
    yield from of_settings(crowd)
