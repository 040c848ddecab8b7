"""Typed handlers on a broker by turns: an `App` at least once, and FastStream with its defaults, at most once.

    python -m bench.client.handled                        all, by turns
    python -m bench.client.handled app <address> <count>  one of them, as a process of its own

`make bench-client` installs FastStream; without it, its figure is missing, and the part says what to install.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.client.bars import Bar, show
from bench.client.broker import running
from bench.client.turns import Turns, cpu_ratio

TOPIC = "orders"
_TIMEOUT_S = 300.0
_FIGURES = "figures:"
"""Begins the line with what was measured; frameworks print lines of their own."""
APP, SUSPENDED, FASTSTREAM = "app", "app-suspended", "faststream"
_MISSING = "  faststream       is not installed: pip install -c constraints.txt 'qanat[peers]', or make bench-client"


class Clock:
    """Counts records; CPU and wall time from the first one to the last."""

    def __init__(self, count: int) -> None:
        self._count, self._seen = count, 0
        self._cpu_s = self._wall_s = 0.0
        self.is_shown = False

    def note(self) -> bool:
        """A record is handled; whether it was the last."""
        self._seen += 1
        if self._seen == 1:
            self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()
        return self._seen >= self._count

    def show(self) -> None:
        self.is_shown, counted = True, self._seen - 1
        cpu_s, wall_s = time.process_time() - self._cpu_s, time.perf_counter() - self._wall_s
        print(_FIGURES, cpu_s / counted * 1e6, counted / wall_s, flush=True)


def run_app(address: str, count: int, *, is_suspended: bool) -> None:
    import msgspec

    from qanat.client import App

    clock, app = Clock(count), App(address)

    class Order(msgspec.Struct):
        id: int
        customer: str
        amount: float

    @app.stream(TOPIC, group=f"g-{time.monotonic_ns()}", concurrency=64)
    async def handle(order: Order) -> None:
        if is_suspended:
            await asyncio.sleep(0)
        if clock.note() and not clock.is_shown:
            clock.show()
            app.stop()

    app.run()


def run_faststream(address: str, count: int) -> None:
    # An extra, and untyped here.
    faststream, confluent, pydantic = map(import_module, ("faststream", "faststream.confluent", "pydantic"))
    order_type = pydantic.create_model("Order", id=(int, ...), customer=(str, ...), amount=(float, ...))
    clock, broker = Clock(count), confluent.KafkaBroker(address)
    app = faststream.FastStream(broker)

    async def handle(order: Any) -> None:
        if clock.note():
            if not clock.is_shown:
                clock.show()
            app.exit()

    handle.__annotations__["order"] = order_type
    broker.subscriber(TOPIC, group_id=f"g-{time.monotonic_ns()}", auto_offset_reset="earliest")(handle)
    asyncio.run(app.run(log_level=logging.CRITICAL))


KINDS: dict[str, Callable[[str, int], None]] = {
    APP: lambda address, count: run_app(address, count, is_suspended=False),
    SUSPENDED: lambda address, count: run_app(address, count, is_suspended=True),
    FASTSTREAM: run_faststream,
}


def _fill(address: str, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 0})
    for number in range(count):
        customer = f"c{number % 1000}"
        order = {"id": number, "customer": customer, "amount": 1.5}
        producer.produce(TOPIC, json.dumps(order).encode(), customer)
        if not number % 10_000:
            producer.poll(0)
    producer.flush()


def _turn(kind: str, address: str, count: int) -> tuple[float, float]:
    line = [sys.executable, "-m", "bench.client.handled", kind, address, str(count)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT_S, check=True)
    (line_of_figures,) = [text for text in done.stdout.splitlines() if text.startswith(_FIGURES)]
    _, cpu_us, rate = line_of_figures.split()
    return float(cpu_us), float(rate)


def bars(count: int, rounds: int) -> list[Bar]:
    """All kinds by turns; FastStream gets a tenth of the records."""
    has_faststream = importlib.util.find_spec("faststream") is not None
    turns = {kind: Turns() for kind in KINDS if kind != FASTSTREAM or has_faststream}
    with running(TOPIC) as address:
        _fill(address, count)
        for _ in range(rounds):
            for kind, found in turns.items():
                found.add(*_turn(kind, address, count // 10 if kind == FASTSTREAM else count))
    for kind, found in turns.items():
        print(f"  {kind:16s} {found}", flush=True)
    if not has_faststream:
        print(_MISSING, flush=True)
    ratio = cpu_ratio(turns[FASTSTREAM], turns[APP]) if has_faststream else None
    return [
        Bar("App on a broker, without suspension", turns[APP].middle_us, 10.0, "at most", "µs"),
        Bar("App on a broker, with suspension", turns[SUSPENDED].middle_us, 25.0, "at most", "µs"),
        Bar("App: records per CPU second beside FastStream's default", ratio, 10.0, "at least"),
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        KINDS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    else:
        show(bars(100_000, 3))
