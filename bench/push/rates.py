"""Records that one consumer gets per second from a log that is full: single-record frames, and batches.

Frames of single records go to a bare reader on a socket, which counts them and reads nothing else of them: what counts
is what the broker sends. Batches go to `qanat.client`, which decodes every record. Each is measured without a group and
as the only member of one.

python -m bench.push.rates ADDRESS TOPIC COUNT KIND    one reader: its seconds, and its CPU time, as JSON
"""

from __future__ import annotations

import asyncio
import json
import statistics
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.servers import Running, qanat

from bench import processes
from bench.client.bars import Bar
from bench.client.consume import TOPIC, fill
from bench.push.crowd import connected
from qanat.client import AsyncPushConsumer

FRAMES_MIN, RECORDS_MIN = 50_000.0, 500_000.0
_HEADER = struct.Struct(">BQI")
_ACK, _DATA, _SUBSCRIBE = 2, 1, 3
_ANSWERED_EVERY = 2_000
_CREDIT = {"records": 20_000, "bytes": 16 * 1024 * 1024}
_CLIENT_CREDIT: dict[str, Any] = {"credit_records": 100_000, "credit_bytes": 2**24}
_LIMIT_S = 120.0
_PARTITIONS = 4
FRAMES, LOG_FRAMES, BATCHES, LOG_BATCHES = "frames", "frames of a group", "batches", "batches of a group"
ONE_BY_ONE, LOG_ONE_BY_ONE = "records", "records of a group"


def frames(address: str, topic: str, count: int) -> float:
    """Seconds from the first frame to the last, without a group."""
    return _frames(address, {"topics": [topic], "credit": _CREDIT}, count)


def _log_frames(address: str, topic: str, count: int) -> float:
    """The same of a group's only member, whose acknowledgements are committed."""
    return _frames(address, {"topics": [topic], "credit": _CREDIT, "group": _new_group()}, count)


def _new_group() -> str:
    """One without a commit, so that it begins with the first record."""
    return f"rates-{uuid.uuid4()}"


def _frames(address: str, wanted: dict[str, object], count: int) -> float:
    client = connected(address, _SUBSCRIBE, wanted)
    seen, rest, size, read_header = 0, b"", _HEADER.size, _HEADER.unpack_from
    began = 0.0
    while seen < count:
        data, at = rest + client.recv(262_144), 0
        began = began or time.perf_counter()  # A group gives its partitions out first.
        end = len(data)
        while end - at >= size:
            kind, number, length = read_header(data, at)
            stop = at + size + length
            if stop > end:
                break
            at = stop
            if kind == _DATA:
                seen += 1
                if not number % _ANSWERED_EVERY:
                    client.sendall(_HEADER.pack(_ACK, number, 0))
        rest = data[at:]
    return time.perf_counter() - began


async def _batches(address: str, topic: str, count: int, group: str = "") -> float:
    seen = 0
    async with AsyncPushConsumer(address, topic, group_id=group, **_CLIENT_CREDIT) as consumer:
        seen += len(await consumer.next_batch())
        began, first = time.perf_counter(), seen
        while seen < count:
            seen += len(await consumer.next_batch())
        return (time.perf_counter() - began) * count / (count - first)


async def _log_batches(address: str, topic: str, count: int) -> float:
    return await _batches(address, topic, count, _new_group())


async def _records(address: str, topic: str, count: int, group: str = "") -> float:
    seen, began = 0, 0.0
    async with AsyncPushConsumer(address, topic, group_id=group, **_CLIENT_CREDIT) as consumer:
        async for _ in consumer:
            began = began or time.perf_counter()
            seen += 1
            if seen == count:
                break
        return time.perf_counter() - began


async def _log_records(address: str, topic: str, count: int) -> float:
    return await _records(address, topic, count, _new_group())


def _in_a_loop(work: Callable[[str, str, int], object]) -> Callable[[str, str, int], float]:
    def run(address: str, topic: str, count: int) -> float:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work(address, topic, count))  # type: ignore[arg-type]

    return run


KINDS: dict[str, Callable[[str, str, int], float]] = {
    FRAMES: frames,
    LOG_FRAMES: _log_frames,
    BATCHES: _in_a_loop(_batches),
    LOG_BATCHES: _in_a_loop(_log_batches),
    ONE_BY_ONE: _in_a_loop(_records),
    LOG_ONE_BY_ONE: _in_a_loop(_log_records),
}


def bars(folder: Path, count: int, rounds: int) -> list[Bar]:
    """Each kind in every round, on a topic that was filled before."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu_us: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with qanat().running(folder / "rates") as broker:
        subprocess.run(
            [sys.executable, "-m", "bench.push.rates", broker.address, TOPIC, str(count), "fill"], check=True
        )
        for number in range(rounds + 1):
            for kind in KINDS:
                rate, cpu = _measured(broker, count, kind)
                if number:
                    rates[kind].append(rate)
                    cpu_us[kind].append(cpu)
    for kind, found in rates.items():
        spread = f"{min(found):,.0f} to {max(found):,.0f}"
        of_broker, of_reader = map(statistics.median, zip(*cpu_us[kind], strict=True))
        print(
            f"  {kind:20s} {statistics.median(found):12,.0f} a second ({spread}), "
            f"CPU each: broker {of_broker:.2f} µs, reader {of_reader:.2f} µs",
            flush=True,
        )
    return [
        Bar("single-record frames to one consumer", statistics.median(rates[FRAMES]), FRAMES_MIN, "at least", "/s"),
        Bar("the same, a member of a group", statistics.median(rates[LOG_FRAMES]), FRAMES_MIN, "at least", "/s"),
        Bar(
            "records one by one through qanat.client, a member",
            statistics.median(rates[LOG_ONE_BY_ONE]),
            FRAMES_MIN,
            "at least",
            "/s",
        ),
        Bar("records in batches to one consumer", statistics.median(rates[BATCHES]), RECORDS_MIN, "at least", "/s"),
        Bar("the same, a member of a group", statistics.median(rates[LOG_BATCHES]), RECORDS_MIN, "at least", "/s"),
    ]


def _measured(broker: Running, count: int, kind: str) -> tuple[float, tuple[float, float]]:
    """Records per second, and the CPU time for each of the broker and of the reader in µs."""
    before = processes.cpu_seconds(broker.pid)
    command = [sys.executable, "-m", "bench.push.rates", broker.address, TOPIC, str(count), kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    spent = processes.cpu_seconds(broker.pid) - before
    seconds, cpu_s = json.loads(done.stdout)
    return count / seconds, (spent / count * 1e6, cpu_s / count * 1e6)


def main(arguments: Sequence[str]) -> int:
    address, topic, count, kind = arguments
    if kind == "fill":
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": address})
        (made,) = admin.create_topics([NewTopic(topic, _PARTITIONS)]).values()
        made.result(30)
        fill(address, int(count), "none")
        return 0
    before = time.process_time()
    seconds = KINDS[kind](address, topic, int(count))
    print(json.dumps([seconds, time.process_time() - before]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
