"""One flipped bit of a base offset, on a real broker that was killed: one batch is damaged, all others are served."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.app.processes import running_broker

from qanat.log.directories.checkpoints import decode_files
from qanat.model import ids

COUNT = 12


def send(address: str, values: list[bytes]) -> list[int]:
    """The offsets that they got, one after another, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 20_000})
    offsets: list[int] = []

    def delivered(error: object, message: object) -> None:
        assert error is None, error
        offsets.append(message.offset())  # type: ignore[attr-defined]

    for value in values:
        producer.produce("orders", value, partition=0, on_delivery=delivered)
        assert not producer.flush(60)
    return offsets


def offsets_from(address: str, offset: int, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("orders", 0, offset)])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.3)
        if message is not None and message.error() is None:
            found.append(message.offset() or 0)
    consumer.close()
    return found


def is_checkpointed(data: Path) -> bool:
    """Whether the checkpoint files know of all records, with a point in the middle of the segment."""
    content = {path.name: path.read_bytes() for path in data.rglob("*-checkpoint")}
    found = decode_files(content).get(ids.TopicPartition("orders", 0))
    return found is not None and found.headers is not None and found.headers.next_offset == COUNT


_GUARDS = [pytest.mark.long, pytest.mark.data]


@pytest.mark.parametrize(
    ("byte", "number"),
    [(3, 4), pytest.param(1, 7, marks=_GUARDS), pytest.param(0, 2, marks=_GUARDS)],
)
def test_one_flipped_bit_of_a_base_offset_takes_one_batch(tmp_path: Path, byte: int, number: int) -> None:
    data = tmp_path / "data"
    line = ("--port", "0", "--data-dir", str(data), "-X", "log.flush.offset.checkpoint.interval.ms=200")
    with running_broker(tmp_path, *line) as broker:
        assert send(broker.address, [b"x" * 900] * COUNT) == list(range(COUNT))
        deadline = time.monotonic() + 60
        while not is_checkpointed(data):
            assert time.monotonic() < deadline, "no checkpoint knows of them"
            time.sleep(0.05)
        broker.process.kill()
        broker.process.wait()
    (log,) = data.rglob("orders-0/*.log")
    content = bytearray(log.read_bytes())
    position = 0
    for _ in range(number):
        position += 12 + int.from_bytes(content[position + 8 : position + 12])
    content[position + byte] ^= 1
    log.write_bytes(content)

    with running_broker(tmp_path, *line) as broker:
        assert offsets_from(broker.address, 0, number) == list(range(number))
        assert offsets_from(broker.address, number + 1, COUNT - number - 1) == list(range(number + 1, COUNT))
        assert send(broker.address, [b"more"]) == [COUNT]
        (reported,) = [event for event in broker.events() if event["event"] == "partition is damaged"]
        assert (reported["partition"], reported["offsets"]) == ("orders-0", f"{number} to {number}")
