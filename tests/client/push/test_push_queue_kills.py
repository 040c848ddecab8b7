"""A queue over push between real processes: worker and broker are killed with -9, and every record is processed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.processes import qanat, running_broker
from tests.servers.http.test_cluster import free_port

from qanat.client import AsyncPushConsumer, AsyncPushProducer

RECORDS, KILLED_AT = 40, 6
WAIT_S = 60.0
SHORT_SESSIONS = {
    "http.port": "0",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
}
"""The member of the lost connection keeps its partitions for as long."""
WORKER = """
import os, signal, sys

from qanat.client import PushConsumer

address, path, killed_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = {"group_id": "workers", "mode": "queue", "credit_records": 4}
with PushConsumer(address, "jobs", **settings) as worker, open(path, "ab") as done:
    for number in range(1, 1000):
        try:
            record = worker.next(10)
        except TimeoutError:
            break
        done.write(record.value + b"\\n")
        done.flush()
        if number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        worker.done()
"""


def begin_with_the_first_record(address: str) -> None:
    assert qanat("topic", "create", "jobs", "--partitions", "2", "-b", address).returncode == 0
    done = qanat("config", "set", "group", "workers", "share.auto.offset.reset=earliest", "-b", address)
    assert done.returncode == 0, done.stderr


async def write(address: str) -> None:
    async with AsyncPushProducer(address) as producer:
        for number in range(RECORDS):
            await (await producer.send("jobs", b"%d" % number, partition=number % 2))


def work(address: str, folder: Path, name: str, killed_at: int = 0) -> tuple[int, list[int]]:
    """Run a worker; how it ended, and what it has processed, in order."""
    script, path = folder / "worker.py", folder / name
    script.write_text(WORKER)
    line = [sys.executable, str(script), address, str(path), str(killed_at)]
    code = subprocess.run(line, timeout=2 * WAIT_S, check=False, env=dict(os.environ)).returncode
    return code, [int(value) for value in path.read_text().split()]


@pytest.mark.long
@pytest.mark.data
def test_what_a_killed_worker_held_goes_to_another(tmp_path: Path) -> None:
    line = ("--port", "0", "--node-id", "0", "--data-dir", str(tmp_path / "data"), "-X", "http.port=0")
    with running_broker(tmp_path, *line) as broker:
        begin_with_the_first_record(broker.address)
        asyncio.run(write(broker.address))
        code, first = work(broker.address, tmp_path, "first", KILLED_AT)
        assert (code, len(first)) == (-signal.SIGKILL, KILLED_AT)
        code, second = work(broker.address, tmp_path, "second")

    assert code == 0
    assert set(first) | set(second) == set(range(RECORDS)), "nothing is lost"
    assert first[-1] in second, "what was not acknowledged comes again"
    assert len(second) == len(set(second)), "once to a worker that acknowledges it"


@pytest.mark.long
@pytest.mark.data
async def test_a_killed_broker_loses_no_record_of_a_queue(tmp_path: Path) -> None:
    line = ("--port", str(free_port()), "--node-id", "0", "--data-dir", str(tmp_path / "data"))
    short = [part for name, value in SHORT_SESSIONS.items() for part in ("-X", f"{name}={value}")]
    seen: list[int] = []
    with running_broker(tmp_path, *line, *short) as broker:
        address = broker.address
        await asyncio.to_thread(begin_with_the_first_record, address)
        await write(address)
        worker = AsyncPushConsumer(address, "jobs", group_id="workers", mode="queue", credit_records=4)
        async with asyncio.timeout(WAIT_S):
            while len(seen) < RECORDS // 2:
                seen.append(int((await worker.next()).value or b""))
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
    with running_broker(tmp_path, *line, *short):
        async with worker, asyncio.timeout(WAIT_S):
            while set(seen) != set(range(RECORDS)):
                seen.append(int((await worker.next()).value or b""))

    assert len(seen) <= RECORDS + 2 * 4 + 1, "again comes what was on its way at most, and verdicts that were"
