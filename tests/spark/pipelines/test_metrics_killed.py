"""The pipeline `metrics` as a command, killed with -9 in between: each window once, as a plain computation has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from demo.fleet import Sent, Truth, measure
from tests.spark.conftest import FOREVER
from tests.spark.pipelines.plain import SIZES, Window, closed, expected

from qanat.testing import EmbeddedBroker

pytestmark = [pytest.mark.long, pytest.mark.data]

START_MS = 1_750_003_200_000
DELAY_MS = 15 * 60_000
END_WITHIN_S = 1200


def send(broker: EmbeddedBroker, records: list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for number, record in enumerate(records):
        producer.produce("metrics.inbound", record.value, key=record.key, timestamp=record.arrival_ms)
        if number % 1000 == 0:
            producer.poll(0.01)
    assert producer.flush(60) == 0


class Run:
    """The command, with its progress in a file."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, number: int) -> None:
        self._log = folder / f"run-{number}.log"
        command = [sys.executable, "-m", "qanat.app", "pipeline", "run", "metrics", "--available-now"]
        command += ["-b", broker.bootstrap_servers, "--master", "local[2]", "--limit", "20000"]
        command += ["--checkpoint", str(folder / "checkpoint"), "--lake", str(folder / "lake")]
        command += ["--conf", "spark.ui.enabled=false"]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, start_new_session=True)

    @property
    def said(self) -> str:
        return self._log.read_text()

    def wait_for_batches(self, count: int) -> None:
        deadline = time.monotonic() + END_WITHIN_S
        while f"metrics-rollup: batch {count}," not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.2)

    def java(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        (found,) = (int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "java")
        return found


def test_each_window_comes_out_once_whatever_is_killed(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        for name in ("metrics.inbound", "metrics.rollup", "metrics.dead"):
            broker.create_topic(name, partitions=3, configs=FOREVER)
        records = list(measure(START_MS, 60, Truth(), every_ms=1000))
        send(broker, records)

        killed = Run(broker, tmp_path, 1)
        killed.wait_for_batches(2)
        os.killpg(killed.process.pid, signal.SIGKILL)
        killed.process.wait()

        last = Run(broker, tmp_path, 2)
        last.wait_for_batches(2)
        os.kill(last.java(), signal.SIGKILL)
        assert last.process.wait(END_WITHIN_S) == 0, last.said
        assert "Java was killed with -9, as the system does when memory runs out" in last.said
        assert "Traceback" not in last.said

        stored = broker.records("metrics.inbound")
        wanted = expected(stored)
        rolled = closed(wanted.windows, max(record.timestamp for record in stored) - DELAY_MS)
        found: dict[Window, dict[str, float]] = {}
        for record in broker.records("metrics.rollup"):
            row = json.loads(record.value or b"")
            window = (row.pop("metric"), row.pop("source"), row.pop("window"), row.pop("start"))
            assert window not in found, "each window comes out once"
            assert row.pop("end") == window[3] + SIZES[window[2]]
            found[window] = row
        assert found.keys() == rolled.keys()
        for window, values in rolled.items():
            assert found[window] == pytest.approx(values, rel=0.01), window
        assert len(broker.records("metrics.dead")) == len(wanted.dead)
