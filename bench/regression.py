"""Performance regression check (`make guard`): a few ratios to a bare loop, cheap enough for every test run.

It measures CPU time, and not in seconds: each piece of work runs between two runs of a bare loop of the same
interpreter, in this process, and costs so many turns of that loop. A slow or busy machine slows both; the median of
some rounds counts.

Rule 1: `COSTS` holds the cost of each path; a path that costs `TOLERANCE` times as much has become slower. It is
        measured again, some times, before the check fails: another process that empties the caches looks the same once.
Rule 2: a path that has become much cheaper gets a lower cost here, or the check no longer notices;
        `python -m bench.regression` shows both.
Rule 3: a change that makes a path more expensive for a reason raises its cost in the same commit, and says why.

Instruction counts would be steadier still, but few virtual machines provide them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.request import TOGETHER, TOPIC, VERSION, OneConnection
from bench.workloads import UNFLUSHED
from qanat.app.bench.log_figures.batches import keyed_batches
from qanat.app.bench.log_figures.columns import column_form
from qanat.testing import BrokerHere
from qanat.wire.columns import decode_columns
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import APIS, ApiKey
from qanat.wire.records import Record, encode_batch

TOLERANCE = 1.6
"""Half the speed is a factor of two; another machine, or a busy one, differs by less than this."""
ROUNDS = 15
ATTEMPTS = 3
EXIT_SLOWER = 1
EXIT_SKIPPED = 3
_LOOP_TURNS = 10_000
_READS = 5
_FETCH_VERSION = 12
_RACKS = ("", "rack")
"""Without a rack a fetch takes the fast path (`servers.kafka.fetch_fast_path`), with one it does not."""
_FETCH_BYTES = 64 * 1024
_READ_TOPIC = "read"
_BATCHES = 20
_COLUMN_RECORDS = 10_000
_METADATA_VERSION = 12

COSTS: Mapping[str, float] = {
    "produce": 172.0,
    "fetch": 232.0,
    "long fetch": 650.0,
    "codec": 2650.0,
    "batch": 520.0,
    "columns": 0.85,
}
"""Turns of the bare loop for one of each, with the per-record core compiled."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work that one call does `count` times."""

    name: str
    what: str
    count: int
    do: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Found:
    """The cost of one piece of work, in turns of the loop, and its bound."""

    work: Work
    cost: float
    known: float

    @property
    def share(self) -> float:
        return self.cost / self.known

    @property
    def is_slower(self) -> bool:
        return self.share > TOLERANCE


def bare_loop() -> int:
    """The bare loop, typical work of an interpreter: names, attributes, calls, small numbers, a dictionary."""
    seen: dict[int, int] = {}
    total = 0
    for number in range(_LOOP_TURNS):
        total += seen.get(number & 63, number)
        seen[number & 63] = total & 1023
    return total


@asynccontextmanager
async def all_work() -> AsyncIterator[list[Work]]:
    """Every checked path, prepared; on an event loop, as in a broker."""
    async with BrokerHere() as broker:
        await broker.create_topic(TOPIC, configs=UNFLUSHED)
        await broker.create_topic(_READ_TOPIC, configs=UNFLUSHED)
        produce = OneConnection(broker)
        fetch, long_fetch = (OneConnection(broker, _fetch(rack) * TOGETHER) for rack in _RACKS)
        OneConnection(broker, _produce(_batch_of_records())).read(_BATCHES)
        produce.read(_READS)
        for reader in (fetch, long_fetch):
            reader.read(1)
            answered_bytes = reader.nowhere.size_bytes
            assert answered_bytes > TOGETHER * _FETCH_BYTES / 2, "fetches are answered at once, with records"
        yield [
            Work("produce", "a produce request of one record", _READS * TOGETHER, lambda: produce.read(_READS)),
            Work("fetch", "a fetch request of 64 KB", _READS * TOGETHER, lambda: fetch.read(_READS)),
            Work("long fetch", "one that goes the long way", _READS * TOGETHER, lambda: long_fetch.read(_READS)),
            _codec(),
            _batch(),
            _columns(),
        ]


def _produce(batch: bytes) -> bytes:
    data = PartitionProduceData(0, memoryview(batch))
    request = ProduceRequest(None, -1, 30_000, [TopicProduceData(_READ_TOPIC, partition_data=[data])])
    body = APIS[ApiKey.PRODUCE].codec.write_request(request, VERSION)
    return b"".join(frame_request(ApiKey.PRODUCE, VERSION, 1, "bench", body))


def _fetch(rack: str) -> bytes:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=_FETCH_BYTES)
    topics = [FetchTopic(_READ_TOPIC, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, rack_id=rack)
    body = APIS[ApiKey.FETCH].codec.write_request(request, _FETCH_VERSION)
    return b"".join(frame_request(ApiKey.FETCH, _FETCH_VERSION, 1, "bench", body))


def _codec() -> Work:
    codec = APIS[ApiKey.METADATA].codec
    partitions = [MetadataResponsePartition(0, number, 1, 0, [1, 2, 3], [1, 2, 3]) for number in range(100)]
    message = MetadataResponse(topics=[MetadataResponseTopic(0, TOPIC, partitions=partitions)])

    def there_and_back() -> Any:
        frame = memoryview(b"".join(codec.write_response(message, _METADATA_VERSION)))
        return codec.read_response(frame, _METADATA_VERSION)

    assert len(there_and_back().topics[0].partitions) == 100
    return Work("codec", "metadata of 100 partitions, written and read", 4, times(4, there_and_back))


def _records() -> list[Record]:
    return [Record(offset, int(time.time() * 1000), None, bytes(100)) for offset in range(100)]


def _batch_of_records() -> bytes:
    return bytes(encode_batch(_records()))


def _batch() -> Work:
    records = _records()
    return Work("batch", "a batch of 100 records, encoded", 10, times(10, lambda: encode_batch(records)))


def times(count: int, do: Callable[[], object]) -> Callable[[], None]:
    """Make all work take about as long as the bare loop, so that a disturbance affects both alike."""

    def repeat() -> None:
        for _ in range(count):
            do()

    return repeat


def _columns() -> Work:
    batches = keyed_batches(_COLUMN_RECORDS)
    assert len(decode_columns(batches, limit_bytes=2**31)) == _COLUMN_RECORDS
    return Work("columns", "a record, to columns", _COLUMN_RECORDS, lambda: decode_columns(batches, limit_bytes=2**31))


def look(work: Sequence[Work], costs: Mapping[str, float], rounds: int = ROUNDS) -> list[Found]:
    """The cost of each: in every round between two runs of the bare loop, the median of all rounds."""
    ratios: dict[str, list[float]] = {one.name: [] for one in work}
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for one in work:
                before_ns = _cpu_ns(bare_loop)
                work_ns = _cpu_ns(one.do)
                loop_ns = (before_ns + _cpu_ns(bare_loop)) / 2
                ratios[one.name].append((work_ns / one.count) / (loop_ns / _LOOP_TURNS))
    finally:
        if was_enabled:
            gc.enable()
    return [Found(one, statistics.median(ratios[one.name]), costs[one.name]) for one in work]


def _cpu_ns(do: Callable[[], object]) -> int:
    began = time.process_time_ns()
    do()
    return time.process_time_ns() - began


async def checked(costs: Mapping[str, float] = COSTS) -> list[Found]:
    """Measure every path; repeat the slower ones, until they are not or the tries are used up."""
    async with all_work() as work:
        found = {one.work.name: one for one in look(work, costs)}
        for _ in range(ATTEMPTS - 1):
            doubtful = [one.work for one in found.values() if one.is_slower]
            if not doubtful:
                break
            for again in look(doubtful, costs):
                if again.cost < found[again.work.name].cost:
                    found[again.work.name] = again
    return list(found.values())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.regression", description="Has something become twice as slow?")
    parser.parse_args(arguments)
    if column_form() != "compiled":
        print("nothing was guarded: the per-record core runs interpreted here, the costs are of the compiled one")
        return EXIT_SKIPPED
    found = asyncio.run(checked())
    for one in found:
        verdict = "SLOWER" if one.is_slower else "as it was" if one.share > 1 / TOLERANCE else "cheaper: lower its cost"
        print(f"{one.work.name:<8} {one.cost:9.2f} turns, known {one.known:9.2f}, {one.share:5.2f} of it: {verdict}")
    return EXIT_SLOWER if any(one.is_slower for one in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
