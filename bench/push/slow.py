"""How much a hundred slow consumers of the same topic delay a quick one, by turns without and with them.

Half of them never read; the others acknowledge ten records a second each.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from pathlib import Path

from tools.servers import Running, qanat

from bench.client.bars import Bar
from bench.clients import Client, Task
from bench.peers.driving import TOPIC
from bench.push.idle import crowd
from bench.push.latency import RATE, SIZE
from bench.workloads.settings import UNFLUSHED

SLOW = 100
LIMIT = 1.2


def bars(folder: Path, seconds: float, rounds: int) -> list[Bar]:
    alone: list[float] = []
    beside: list[float] = []
    with qanat().running(folder / "slow") as broker:
        _p99_ms(broker, "warm-up", min(seconds, 3.0), 0)
        for number in range(rounds):
            alone.append(_p99_ms(broker, f"alone-{number}", seconds, 0))
            beside.append(_p99_ms(broker, f"beside-{number}", seconds, SLOW))
    ratio = statistics.median(with_them / without for with_them, without in zip(beside, alone, strict=True))
    for name, found in (("alone", alone), (f"beside {SLOW} slow ones", beside)):
        spread = f"{min(found):.2f} to {max(found):.2f}"
        print(f"  a quick consumer {name}: p99 {statistics.median(found):.2f} ms ({spread})", flush=True)
    return [Bar(f"p99 of a quick consumer beside {SLOW} slow ones", ratio, LIMIT, "at most")]


def _p99_ms(broker: Running, topic: str, seconds: float, slow: int) -> float:
    client = Client((sys.executable, "-m", "bench.push.drive_push"), "push")
    making = {f"{TOPIC}{name}": value for name, value in UNFLUSHED.items()}
    client.run(broker.address, Task("create", topic, settings=making))
    with contextlib.ExitStack() as crowds:
        for kind in ("stuck", "slow") if slow else ():
            crowds.enter_context(crowd(broker, topic, slow // 2, kind))
        found = client.run(broker.address, Task("endtoend", topic, SIZE, int(RATE * seconds), RATE))
    client.run(broker.address, Task("delete", topic))
    return found["p99_ms"]
