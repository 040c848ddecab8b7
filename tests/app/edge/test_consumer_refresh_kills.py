"""A broker that is killed with -9 during the refresh of a consumer application that lives on."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.app.edge.test_consumer_process import RunningConsumer, free_port, running_consumer
from tests.app.processes import QANAT, RunningBroker, qanat, running_broker

from qanat.client import PushProducer

WAIT_S = 120.0
COUNT = 16_000
"""So many records are there before the refresh, which gives the second half of them again."""
FIRST_NEW = COUNT // 2
VALUE = "x" * 2000


class Reader(threading.Thread):
    """Lists everything that is served, again and again, and keeps each listing that came to its end."""

    def __init__(self, consumer: RunningConsumer) -> None:
        super().__init__(daemon=True)
        self._address = consumer.address
        self.listings: list[list[int]] = []
        self.statuses: set[int] = set()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            found = self._listing()
            if found is not None:
                self.listings.append(found)

    def _listing(self) -> list[int] | None:
        """Offsets; None where it has to begin again."""
        found: list[int] = []
        cursor: str | None = ""
        while cursor is not None:
            status, page = self._get(f"/api/v1/records?limit=1000&cursor={cursor}" if cursor else _FIRST_PAGE)
            self.statuses.add(status)
            if status != 200:
                return None
            found += [one["offset"] for one in page["records"]]
            cursor = page["next_cursor"]
        return found

    def _get(self, path: str) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(self._address + path, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as fault:
            return fault.code, json.load(fault)

    def stop(self) -> None:
        self._is_over.set()
        self.join(WAIT_S)


_FIRST_PAGE = "/api/v1/records?limit=1000"


def write(address: str, first: int, end: int) -> None:
    with PushProducer(address) as producer:
        sent = [producer.send("prices", f"{n} {VALUE}".encode(), partition=0) for n in range(first, end)]
        for one in sent:
            one.result(WAIT_S)


@contextlib.contextmanager
def reading(consumer: RunningConsumer) -> Iterator[Reader]:
    reader = Reader(consumer)
    reader.start()
    try:
        yield reader
    finally:
        reader.stop()


def kill_in_a_refresh(broker: RunningBroker, consumer: RunningConsumer) -> None:
    """Kill the broker once the application has begun to fill a new generation, and long before it is full."""
    asked = ("push", "refresh", "till", "--topic", "prices", "--from", str(FIRST_NEW), "-b", broker.address)
    with subprocess.Popen([*QANAT, *asked], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as command:
        deadline = time.monotonic() + WAIT_S
        filled = consumer.log.parent / "data" / "generations" / "2" / "prices-0"
        while not any(one.stat().st_size for one in filled.glob("*.log")):
            assert time.monotonic() < deadline, "nothing has come of a refresh"
            time.sleep(0.001)
        broker.stop(signal.SIGKILL)
        command.kill()
    status = consumer.get("/api/v1/status")
    assert status["partitions"][0]["generation"] == 1, "the refresh was complete: it is to be longer"
    assert 0 < status["refresh"]["records"] < COUNT - FIRST_NEW


@pytest.mark.long
@pytest.mark.data
def test_a_broker_killed_in_the_middle_of_a_refresh_leaves_the_old_served_until_ready(tmp_path: Path) -> None:
    arguments = ("--port", str(free_port()), "--data-dir", "broker")
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(running_broker(tmp_path, *arguments))
        qanat("topic", "create", "prices", "--partitions", "1", "-b", broker.address)
        consumer = stack.enter_context(running_consumer(tmp_path, broker.address))
        write(broker.address, 0, COUNT)
        consumer.wait_for("/api/v1/status", lambda status: status["records"] == COUNT)

        reader = stack.enter_context(reading(consumer))
        kill_in_a_refresh(broker, consumer)
        killed = len(reader.listings)
        while len(reader.listings) < killed + 3:
            time.sleep(0.05)
        again = stack.enter_context(running_broker(tmp_path, *arguments))
        consumer.wait_for("/api/v1/status", lambda status: status["partitions"][0]["generation"] > 1)
        replaced = len(reader.listings)
        while len(reader.listings) < replaced + 3:
            time.sleep(0.05)
        reader.stop()

        old, new = list(range(COUNT)), list(range(FIRST_NEW, COUNT))
        switched = reader.listings.index(new)
        assert all(listing == old for listing in reader.listings[:switched])
        assert all(listing == new for listing in reader.listings[switched:])
        assert killed + 2 < switched, "the old was served while there was no broker"
        assert reader.statuses <= {200, 410, 503}
        write(again.address, COUNT, COUNT + 100)
        consumer.wait_for("/api/v1/status", lambda status: status["partitions"][0]["end_offset"] == COUNT + 100)
        assert [offset for _, offset, _ in consumer.records()] == list(range(FIRST_NEW, COUNT + 100))
