"""Refreshes of real processes: consumer and broker are killed with -9 in every state, and no generation is mixed."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.processes import running_broker
from tests.client.push.test_push_refresh import ask, newest

from qanat.client import AsyncPushProducer
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.model.push_refreshes import RefreshState
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey

RECORDS = 12
APPLICATION = """
import os, signal, sqlite3, sys

from qanat.client import PushConsumer, ResumePoint

address, path, point = sys.argv[1:4]
store = sqlite3.connect(path, isolation_level=None)
store.execute("PRAGMA synchronous = FULL")
store.execute(
    "CREATE TABLE IF NOT EXISTS records (generation, number, offset, value, PRIMARY KEY (generation, number, offset))"
)
store.execute("CREATE TABLE IF NOT EXISTS served (number PRIMARY KEY, generation)")


def reached(name):
    if name == point:
        os.kill(os.getpid(), signal.SIGKILL)


def on_reset(refresh):
    reached("before reset")
    known = {}
    for at, extent in refresh.partitions.items():
        asked = "SELECT max(offset) FROM records WHERE generation = ? AND number = ?"
        last = store.execute(asked, (refresh.id, at.partition)).fetchone()[0]
        known[at] = ResumePoint(extent.start if last is None else last + 1)
    reached("after reset")
    return known


def on_ready(refresh):
    reached("before ready")
    store.execute("BEGIN")
    for at in refresh.partitions:
        store.execute("INSERT OR REPLACE INTO served VALUES (?, ?)", (at.partition, refresh.id))
    store.execute("COMMIT")
    reached("after ready")


with PushConsumer(address, "prices", group_id="g", on_reset=on_reset, on_ready=on_ready, credit_records=2) as consumer:
    for number in range(1, 1000):
        try:
            record = consumer.next(5)
        except TimeoutError:
            break
        refresh = consumer.refresh_of(record)
        served = store.execute("SELECT generation FROM served WHERE number = ?", (record.partition,)).fetchone()
        generation = refresh.id if refresh else served[0] if served else ""
        row = (generation, record.partition, record.offset, record.value)
        store.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", row)
        reached(f"record {number}")
"""
POINTS = ("before reset", "after reset", "record 3", "record 2", "before ready", "after ready")


async def prepare(address: str) -> None:
    async with Cluster(parse_bootstrap(address)) as client:
        request = CreateTopicsRequest([CreatableTopic("prices", 2, 1)], 10_000)
        answer = await client.call_controller(ApiKey.CREATE_TOPICS, request)
        assert [one.error_code for one in answer.topics] == [0]
    await write(address, range(RECORDS))


async def write(address: str, values: range) -> None:
    async with AsyncPushProducer(address) as producer:
        for value in values:
            await (await producer.send("prices", b"%d" % value, partition=value % 2))


def consume(address: str, tmp_path: Path, point: str = "") -> int:
    script = tmp_path / "application.py"
    script.write_text(APPLICATION)
    line = [sys.executable, str(script), address, str(tmp_path / "store.db"), point]
    return subprocess.run(line, timeout=90, check=False).returncode


def served(tmp_path: Path) -> dict[int, tuple[str, list[int]]]:
    """What a query would be answered from: the generation of each partition, and its values."""
    found: dict[int, tuple[str, list[int]]] = {}
    with sqlite3.connect(tmp_path / "store.db") as store:
        for number in range(2):
            row = store.execute("SELECT generation FROM served WHERE number = ?", (number,)).fetchone()
            generation = row[0] if row else ""
            rows = store.execute(
                "SELECT value FROM records WHERE generation = ? AND number = ? ORDER BY offset", (generation, number)
            )
            found[number] = generation, [int(value) for (value,) in rows]
    return found


@pytest.mark.long
@pytest.mark.data
def test_consumer_and_broker_are_killed_in_every_state_of_a_refresh(tmp_path: Path) -> None:
    line = ("--port", "0", "--node-id", "0", "--data-dir", str(tmp_path / "data"), "-X", "http.port=0")
    whole = {0: list(range(0, RECORDS, 2)), 1: list(range(1, RECORDS, 2))}
    with running_broker(tmp_path, *line) as broker:
        asyncio.run(prepare(broker.address))
        assert consume(broker.address, tmp_path) == 0
        asyncio.run(ask(broker.address, "refresh"))
        entry = asyncio.run(newest(broker.address))
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
    states = set()
    for point in POINTS:
        with running_broker(tmp_path, *line) as broker:
            assert consume(broker.address, tmp_path, point) == -signal.SIGKILL, point
            found = served(tmp_path)
            assert {number: values for number, (_, values) in found.items()} == whole, point
            generations = {generation for generation, _ in found.values()}
            assert generations == ({entry.id} if point == "after ready" else {""}), "all at once, at READY"
            now = asyncio.run(newest(broker.address))
            assert now.id == entry.id
            states |= {one.state for one in now.partitions}
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait()
    assert states == {RefreshState.RESETTING, RefreshState.REPLAYING, RefreshState.READYING}

    with running_broker(tmp_path, *line) as broker:
        asyncio.run(write(broker.address, range(RECORDS, RECORDS + 2)))
        assert consume(broker.address, tmp_path) == 0
        ended = asyncio.run(newest(broker.address))
    assert {one.state for one in ended.partitions} == {RefreshState.DONE}
    assert served(tmp_path) == {number: (entry.id, [*values, RECORDS + number]) for number, values in whole.items()}
