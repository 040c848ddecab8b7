"""The ten bottlenecks: each sets a stage, and says what must be named first."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from verify.diagnosis.stage import Stage, slow

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTLING_S = 3.0


class Case(NamedTuple):
    """A bottleneck."""

    cause: str
    subject: str
    stage: Callable[[Path], AbstractContextManager[Stage]]
    needs_disk: bool = False
    """Whether memory does not do in place of a disk."""


def _written(stage: Stage, topic: str, **plan: object) -> None:
    stage.load("frames", topic=topic, leaders=stage.leaders(topic), **{"acks": -1, "records": 10, "size": 100, **plan})


@contextmanager
def slow_disk(folder: Path) -> Iterator[Stage]:
    with Stage(folder, slow={0: slow(folder, "broker-0", sync_ms=50)}) as stage:
        stage.topic("orders", [[0]] * 3)
        _written(stage, "orders", rate=100)
        yield stage


@contextmanager
def slow_follower(folder: Path) -> Iterator[Stage]:
    with Stage(folder, 3, {"min.insync.replicas": "2"}) as stage:
        stage.topic("orders", [[0, 1, 2], [1, 0, 2]])
        _written(stage, "orders", rate=50)
        stage.stutter(2, 0.15, 0.03)
        yield stage


@contextmanager
def hot_partition(folder: Path) -> Iterator[Stage]:
    with Stage(folder) as stage:
        stage.topic("orders", [[0]] * 6, **{"retention.bytes": "50000000", "segment.bytes": "10000000"})
        hot = {0: stage.leaders("orders")[0]}
        stage.load("frames", topic="orders", leaders=hot, acks=1, records=40, size=100, connections=4, depth=10)
        stage.load("frames", topic="orders", leaders=stage.leaders("orders"), acks=1, records=10, size=100, rate=10)
        yield stage


@contextmanager
def full_loop(folder: Path) -> Iterator[Stage]:
    with Stage(folder) as stage:
        for number in range(20):
            stage.topic(f"orders-{number}", [[0]] * 20)
        stage.load("metadata", connections=4)
        yield stage


@contextmanager
def tiny_batches(folder: Path) -> Iterator[Stage]:
    with Stage(folder) as stage:
        stage.topic("orders", [[0]] * 4)
        _written(stage, "orders", acks=1, records=1, connections=2, depth=20)
        yield stage


@contextmanager
def throttled_clients(folder: Path) -> Iterator[Stage]:
    settings = {"queued.max.request.bytes": "1048576"}
    with Stage(folder, 1, settings, {0: slow(folder, "broker-0", sync_ms=12)}) as stage:
        stage.topic("orders", [[0]] * 4, **{"retention.bytes": "50000000", "segment.bytes": "10000000"})
        _written(stage, "orders", records=100, size=1000, depth=10, connections=2, client="bulk")
        yield stage


@contextmanager
def cold_reads(folder: Path) -> Iterator[Stage]:
    with Stage(folder, 1, {}, {0: slow(folder, "broker-0/orders", read_ms=15)}) as stage:
        stage.topic("orders", [[0]] * 2, **{"segment.bytes": "16000000"})
        stage.fill("orders", 300_000_000)
        stage.forget_pages()
        for number in range(2):
            stage.load("group", topic="orders", group=f"replay-{number}")
        yield stage


@contextmanager
def slow_store(folder: Path) -> Iterator[Stage]:
    with Stage(folder, slow={0: slow(folder, "metadata.db", sync_ms=400)}) as stage:
        stage.load("topics")
        yield stage


@contextmanager
def unbalanced_leaders(folder: Path) -> Iterator[Stage]:
    with Stage(folder, 3) as stage:
        stage.topic("orders", [[0, 1, 2]] * 12)
        _written(stage, "orders", rate=20)
        yield stage


@contextmanager
def lagging_group(folder: Path) -> Iterator[Stage]:
    with Stage(folder) as stage:
        stage.topic("orders", [[0]] * 2)
        stage.load("group", topic="orders", group="billing", pause_ms=5)
        _written(stage, "orders", rate=50)
        time.sleep(6)
        yield stage


CASES = (
    Case("slow_disk", "broker 0", slow_disk),
    Case("slow_follower", "broker 2", slow_follower),
    Case("hot_partition", "orders:0", hot_partition),
    Case("full_loop", "broker 0", full_loop),
    Case("tiny_batches", "broker 0", tiny_batches),
    Case("throttled_clients", "broker 0", throttled_clients),
    Case("cold_reads", "broker 0", cold_reads, needs_disk=True),
    Case("slow_store", "broker 0", slow_store),
    Case("unbalanced_leaders", "broker 0", unbalanced_leaders),
    Case("lagging_group", "group billing", lagging_group),
)


@contextmanager
def healthy(folder: Path) -> Iterator[Stage]:
    """Three brokers with an even load, and a group that keeps up."""
    with Stage(folder, 3, {"min.insync.replicas": "2"}) as stage:
        stage.topic("orders", [[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 2)
        stage.load("group", topic="orders", group="billing")
        _written(stage, "orders", rate=20)
        yield stage
