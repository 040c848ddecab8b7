"""Requests and answers of very many rows: other requests do not wait for all of it.

What is counted is work, not time: calls of functions on the loop's thread between two turns of the loop. A handler that
goes through its rows in one go makes at least a few calls for each, and so does a codec that is used on the loop.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from bench.stalls.cases import Case
from bench.stalls.crowd import Crowd, settle
from bench.stalls.requests import cases

from qanat.api.api_table import SERVED
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.headers import read_response_header

CALLS_MAX = 40_000
"""Between two turns of the loop; some ten milliseconds of work."""
ROWS_MAX = 12_000
_CROWD = Crowd(
    wide_topics=8,
    narrow_topics=50,
    groups=4_000,
    offsets=12_000,
    members=400,
    large_bytes=4 << 20,
    parts=20,
    part_bytes=300_000,
    inflated_bytes=1 << 20,
)
_TIMEOUT_S = 60.0


class Workload:
    """Counts the calls of every callback that the loop makes, and keeps the most of one.

    A cache of size zero is a counter in C: a Python function in its place takes most of the time of the test.
    """

    def __init__(self) -> None:
        self.most_calls = 0
        self._on_event = lru_cache(maxsize=0)(slice)

    @property
    def events(self) -> int:
        """One for each call and one for each return."""
        return self._on_event.cache_info().misses

    @contextmanager
    def counted(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        run = asyncio.Handle._run

        def counted_run(handle: asyncio.Handle) -> None:
            before = self.events
            run(handle)
            self.most_calls = max(self.most_calls, (self.events - before) // 2)

        with monkeypatch.context() as patched:
            patched.setattr(asyncio.Handle, "_run", counted_run)
            sys.setprofile(self._on_event)
            try:
                yield
            finally:
                sys.setprofile(None)


async def ask(address: str, frame: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 26)
    try:
        writer.write(frame)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    finally:
        writer.close()


async def most_calls_of_each(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    settings: dict[str, Any] = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": 4}
    found: dict[str, int] = {}
    async with EmbeddedBroker.here(data_dir=folder, settings=settings) as broker:
        await settle(broker.node.broker, _CROWD)
        for served in SERVED.values():
            assert served.handle is not None, "imported before it is counted: pytest rewrites it on the way"
        for case in cases(_CROWD):
            work, frame = Workload(), _frame(case)
            with work.counted(monkeypatch):
                answer = await asyncio.wait_for(ask(broker.bootstrap_servers, frame), _TIMEOUT_S)
            found[f"{case.name}: {case.what}"] = work.most_calls
            check_rows(case, answer)
        assert broker.problems == []
    return found


def check_rows(case: Case, answer: bytes) -> None:
    """What is done in pieces is answered as a whole: every row, each once and without an error."""
    _, position = read_response_header(memoryview(answer), case.key, case.version)
    response = SERVED[case.key].api.codec.read_response(memoryview(answer), case.version, position)
    match case.name, case.what:
        case "Produce", "known partitions":
            rows = [row for topic in response.responses for row in topic.partition_responses]
            assert [len(topic.partition_responses) for topic in response.responses] == [100] * _CROWD.wide_topics
            assert {row.error_code for row in rows} == {0}
        case "Fetch", "known partitions":
            rows = [row for topic in response.responses for row in topic.partitions]
            assert (len(rows), {row.error_code for row in rows}) == (_CROWD.partitions, {0})
        case "OffsetCommit", "known partitions":
            rows = [row for topic in response.topics for row in topic.partitions]
            assert (len(rows), {row.error_code for row in rows}) == (_CROWD.partitions, {0})
        case "OffsetFetch", "all offsets of a group":
            (group,) = response.groups
            rows = [row for topic in group.topics for row in topic.partitions]
            assert (group.error_code, len(rows)) == (0, _CROWD.offsets)
        case "ListGroups", "all groups" | "many states":
            assert len(response.groups) >= _CROWD.groups
        case "Produce", _ if "unknown" not in case.what:
            rows = [row for topic in response.responses for row in topic.partition_responses]
            assert {row.error_code for row in rows} == {0}
        case "TxnOffsetCommit" | "AddPartitionsToTxn", "known partitions":
            topics = response.topics if case.name == "TxnOffsetCommit" else response.results_by_topic_v3_and_below
            errors = [
                row.error_code if case.name == "TxnOffsetCommit" else row.partition_error_code
                for topic in topics
                for row in (topic.partitions if case.name == "TxnOffsetCommit" else topic.results_by_partition)
            ]
            assert (len(errors), set(errors)) == (_CROWD.partitions, {0})
        case "EndTxn", "one of many partitions":
            assert response.error_code == 0
        case "WriteTxnMarkers", "known partitions":
            rows = [row for marker in response.markers for topic in marker.topics for row in topic.partitions]
            assert (len(rows), {row.error_code for row in rows}) == (_CROWD.partitions, {0})
        case "DeleteRecords", "known partitions":
            rows = [row for topic in response.topics for row in topic.partitions]
            assert (len(rows), {row.error_code for row in rows}) == (_CROWD.partitions, {0})
        case "Metadata", "all topics":
            assert sum(len(topic.partitions) for topic in response.topics) >= _CROWD.partitions
        case _:
            pass


def _frame(case: Case) -> bytes:
    return replace(case, rows_max=min(case.rows_max, ROWS_MAX)).largest()[1]


@pytest.mark.long
def test_no_request_is_handled_for_long_without_a_yield(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # Its handles can be looked into.
        found = runner.run(most_calls_of_each(tmp_path, monkeypatch))

    assert {what: calls for what, calls in found.items() if calls > CALLS_MAX} == {}
