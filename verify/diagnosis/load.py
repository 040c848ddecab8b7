"""One load: `python -m verify.diagnosis.load KIND PLAN`, until it is killed.

- `frames`   the same Produce requests again and again, on plain connections, so that the client needs little CPU
- `metadata`   the same for requests for the metadata of all topics
- `group`    consumers of a group, each record taking some time
- `topics`   topics created and deleted
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import sys
import time
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException, NewTopic

from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.metadata import write_request as write_metadata
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch

_PRODUCE, _PRODUCE_VERSION = 0, 7
_METADATA, _METADATA_VERSION = 3, 5
_LOOK_S = 0.01


class Connection:
    """Sends one frame again and again, with at most so many unanswered."""

    def __init__(self, address: str, frame: bytes, depth: int) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame, self.depth, self.unanswered = frame, depth, 0
        self._left = b""
        self._skip = 0

    def send(self, count: int) -> None:
        """Send as many as may be unanswered, and no more than `count`."""
        count = min(count, self.depth - self.unanswered)
        if count > 0:
            self.socket.sendall(self.frame * count)
            self.unanswered += count

    def read(self) -> None:
        """Count the answers that have come."""
        data = self._left + self.socket.recv(1 << 20)
        if not data:
            raise SystemExit("the broker closed the connection")
        at = self._skip
        while at + 4 <= len(data):
            (size,) = struct.unpack_from(">i", data, at)
            self.unanswered -= 1
            at += 4 + size
        self._left, self._skip = (data[at:], 0) if at <= len(data) else (b"", at - len(data))


def produce_frame(plan: dict[str, Any], partition: int) -> bytes:
    now_ms = int(time.time() * 1000)
    rows = [Record(n, now_ms, None, b"x" * plan["size"]) for n in range(plan["records"])]
    batch = PartitionProduceData(partition, memoryview(encode_batch(rows)))
    request = ProduceRequest(None, plan["acks"], 30_000, [TopicProduceData(plan["topic"], partition_data=[batch])])
    body = write_request(request, _PRODUCE_VERSION)
    return b"".join(frame_request(_PRODUCE, _PRODUCE_VERSION, 1, plan.get("client", "load"), body))


def frames(plan: dict[str, Any]) -> None:
    """`leaders` by partition; `rate` requests a second of each connection, as fast as it goes where it is 0."""
    each = range(plan.get("connections", 1))
    run(
        [
            Connection(address, produce_frame(plan, int(partition)), plan.get("depth", 5))
            for partition, address in plan["leaders"].items()
            for _ in each
        ],
        plan.get("rate", 0),
    )


def metadata(plan: dict[str, Any]) -> None:
    body = write_metadata(MetadataRequest(None), _METADATA_VERSION)
    frame = b"".join(frame_request(_METADATA, _METADATA_VERSION, 1, "load", body))
    run([Connection(plan["bootstrap"].split(",")[0], frame, 5) for _ in range(plan["connections"])], 0)


def run(connections: list[Connection], rate: float) -> None:
    selector = selectors.DefaultSelector()
    for one in connections:
        selector.register(one.socket, selectors.EVENT_READ, one)
    began, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate) - sent if rate else 1 << 30
        sent += due if rate else 0
        for one in connections:
            one.send(due)
        for key, _ in selector.select(_LOOK_S if rate else 1.0):
            key.data.read()
        if rate:
            time.sleep(_LOOK_S)


def group(plan: dict[str, Any]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": plan["bootstrap"],
            "group.id": plan["group"],
            "auto.offset.reset": plan.get("reset", "earliest"),
            "auto.commit.interval.ms": 500,
            "fetch.message.max.bytes": 1 << 20,
        }
    )
    consumer.subscribe([plan["topic"]])
    while True:
        for _ in consumer.consume(500, 0.2):
            if plan.get("pause_ms"):
                time.sleep(plan["pause_ms"] / 1000)


def topics(plan: dict[str, Any]) -> None:
    admin, number = AdminClient({"bootstrap.servers": plan["bootstrap"]}), 0
    while True:
        number += 1
        with contextlib.suppress(KafkaException):
            admin.create_topics([NewTopic(f"made-{number}", 1, 1)])[f"made-{number}"].result(60)


KINDS = {"frames": frames, "metadata": metadata, "group": group, "topics": topics}

if __name__ == "__main__":
    KINDS[sys.argv[1]](json.loads(sys.argv[2]))
