"""Code that holds the interpreter's lock (GIL): how long it may, without costing a queue consumer its locks.

The broker is another process: one in this process would stand still as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.processes import qanat, running_broker
from tests.client.consumer.test_interpreter_lock import hold_the_lock

from qanat.client import LockLostError, Producer, QueueConsumer, Record

LOCK_S = 3.0
SETTINGS = {
    "QANAT_GROUP_SHARE_RECORD_LOCK_DURATION_MS": str(int(LOCK_S * 1000)),
    "QANAT_GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS": "1000",
    "QANAT_SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS": "3",
    "QANAT_HTTP_PORT": "-1",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(Path(tmp_path_factory.mktemp("broker")), "--port", "0", environment=SETTINGS) as broker:
        for group in ("half", "longer"):
            for command in (
                ("topic", "create", group),
                ("config", "set", "group", group, "share.auto.offset.reset=earliest"),
            ):
                done = qanat(*command, "-b", broker.address)
                assert done.returncode == 0, done.stderr
            with Producer(broker.address) as producer:
                producer.send(group, b"a job")
        yield broker.address


def one_job(consumer: QueueConsumer) -> Record[bytes, bytes]:
    (job,) = consumer.poll(1, timeout_s=60)
    return job


def test_a_call_that_holds_it_for_half_the_lock_again_and_again_costs_nothing(address: str) -> None:
    lost: list[object] = []
    with QueueConsumer(address, "half", group="half", on_lock_lost=lambda *told: lost.append(told)) as consumer:
        job = one_job(consumer)
        for _ in range(3):  # Longer than the lock, all of them together.
            hold_the_lock(LOCK_S / 2)
            time.sleep(0.3)  # The thread of the network gets its turn, as between two calls of any program.
        consumer.acknowledge(job)
        consumer.flush()
    assert lost == []


def test_a_call_that_holds_it_for_longer_than_the_lock_loses_it_and_it_is_told(address: str) -> None:
    lost: list[object] = []
    with QueueConsumer(address, "longer", group="longer", on_lock_lost=lambda *told: lost.append(told)) as consumer:
        job = one_job(consumer)
        hold_the_lock(1.5 * LOCK_S)
        again = one_job(consumer)
        assert (again.offset, again.delivery_count) == (job.offset, 2)
        assert len(lost) == 1
        with pytest.raises(LockLostError):
            consumer.acknowledge(job)
        consumer.acknowledge(again)
        consumer.flush()
