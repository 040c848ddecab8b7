"""A child returns after a long time: the speed of its catching up beside a bare TCP stream on the same link, and how
late urgent records are meanwhile."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from tools.servers import Running, free_port

from bench.client.bars import Bar
from bench.edge.link import Link
from bench.edge.tree import BULK, URGENT, Ends, child, linked, plant, producer, root, wait_until

RATE_BYTES_PER_S, DELAY_S = 4_000_000, 0.02
_RECORD = 10_000
_SHARE_MIN = 0.9
_LAG_MAX_S = 2.0
_URGENT_PAUSE_S = 0.1


def bars(folder: Path, is_quick: bool) -> list[Bar]:
    backlog = 20_000_000 if is_quick else 100_000_000
    port = free_port()
    with linked(RATE_BYTES_PER_S, DELAY_S) as link, root(folder, port) as parent:
        link_port = link.port_to(lambda: port)
        plant(port, link_port)
        bare = bare_stream(link, backlog // 4)
        with child(folder, link_port) as below:
            _write(parent, BULK, 1)
            _write(parent, URGENT, 1)
            ends = Ends(below)
            wait_until(lambda: ends.of(BULK) == 1 and ends.of(URGENT) == 1, "the first records at the child")
            ends.close()
        _write(parent, BULK, backlog // _RECORD)
        with child(folder, link_port) as below:
            urgent = Urgent(parent, below)
            speed = _caught_up(below, 1 + backlog // _RECORD)
            lags = urgent.end()
    late = lags[int(0.99 * len(lags))] if lags else None
    print(
        f"  {backlog / 1e6:.0f} MB: {speed / 1e6:.2f} MB/s, bare TCP {bare / 1e6:.2f} MB/s; {len(lags)} urgent records"
    )
    return [
        Bar("catching up, beside a bare TCP stream", speed / bare, _SHARE_MIN, "at least"),
        Bar("urgent records meanwhile, p99", late, _LAG_MAX_S, "at most", "s"),
    ]


def bare_stream(link: Link, size: int) -> float:
    """Bytes per second of one TCP connection over the link."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = link.port_to(lambda: int(listening.getsockname()[1]))
    with socket.create_connection(("127.0.0.1", port)) as near:
        near.sendall(b"?")
        far, _ = listening.accept()
        threading.Thread(target=far.sendall, args=(bytes(size),), daemon=True).start()
        got = len(near.recv(1 << 16))
        began, counted = time.monotonic(), 0
        while got < size:
            more = len(near.recv(1 << 16))
            got += more
            counted += more
        took = time.monotonic() - began
    far.close()
    listening.close()
    return counted / took


def _write(broker: Running, topic: str, count: int) -> None:
    writer = producer(broker)
    for _ in range(count):
        writer.produce(topic, os.urandom(_RECORD))
        writer.poll(0)
    writer.flush(300)


def _caught_up(below: Running, goal: int) -> float:
    """Bytes per second from the first batch of the backlog to its last."""
    ends = Ends(below)
    wait_until(lambda: ends.of(BULK) > 1, "the beginning of the backlog", pause_s=0.01)
    began, first = time.monotonic(), ends.of(BULK)
    wait_until(lambda: ends.of(BULK) >= goal, "the backlog at the child", 900, 0.02)
    took = time.monotonic() - began
    ends.close()
    return (goal - first) * _RECORD / took


class Urgent:
    """Urgent records: written at the root ten times a second, and read at the child."""

    def __init__(self, parent: Running, below: Running) -> None:
        self._lags: list[float] = []
        self._is_over = threading.Event()
        self._writing = threading.Thread(target=self._write, args=(parent,), daemon=True)
        self._reading = threading.Thread(target=self._read, args=(below,), daemon=True)
        self._writing.start()
        self._reading.start()

    def _write(self, parent: Running) -> None:
        writer = producer(parent)
        while not self._is_over.wait(_URGENT_PAUSE_S):
            writer.produce(URGENT, b"%d" % time.time_ns())
            writer.poll(0)
        writer.flush(10)

    def _read(self, below: Running) -> None:
        consumer = Consumer({"bootstrap.servers": below.address, "group.id": "urgent"})
        consumer.assign([TopicPartition(URGENT, 0, 1)])
        while not self._is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._lags.append((time.time_ns() - int(message.value() or b"0")) / 1e9)
        consumer.close()

    def end(self) -> list[float]:
        """The lags in seconds, sorted; those of the first second are the child's start."""
        self._is_over.set()
        self._writing.join()
        self._reading.join()
        return sorted(self._lags)
