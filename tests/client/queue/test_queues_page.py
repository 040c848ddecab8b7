"""Every example of docs/client/queues.md runs as it stands, on a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.client.queue.queues import PATIENCE_S, Queue

from qanat.testing import EmbeddedBroker

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client" / "queues.md"


def test_the_examples_run_as_they_stand() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with EmbeddedBroker() as broker:
        jobs = Queue(broker, "jobs", "workers")
        broker.create_topic("jobs", 2)
        for group in ("workers", "painters", "typed"):
            Queue(broker, "jobs", group).configure(**{"share.auto.offset.reset": "earliest"})
        jobs.produce(b"1", b"", b"2")
        jobs.produce(b"stop")
        jobs.produce(b'{"id":7}')
        for example in examples:
            program = example.replace("localhost:9092", broker.bootstrap_servers)
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE_S
            )
            assert done.returncode == 0, done.stderr[-2000:]
    assert len(examples) == 3
