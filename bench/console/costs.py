"""What the console costs the broker: ten tabs, a scrape of the metrics, a search over records."""

from __future__ import annotations

import re
import threading
import time
from urllib.parse import quote

from bench import processes
from bench.client.bars import Bar
from bench.console.stage import READ, RECORDS, Stage

TABS = 10
SEARCHES = 100
_TWO_PASSES_S = 20.0
"""Of the collector of lag."""
TAB_S = 5.0
"""How often a screen asks again."""
_PATHS = (
    "/api/v1/cluster/traffic",
    "/health",
    "/api/v1/topics?traffic=true&sort=size_bytes&limit=100",
    "/api/v1/groups?lag=true&sort=time_lag_s&limit=100",
)
_BUCKET = re.compile(r'qanat_loop_late_seconds_bucket\{le="([^"]+)"\} (\d+)')


def bars(made: Stage, seconds: float) -> list[Bar]:
    return [*_tabs(made, seconds), *_metrics(made), *_search(made)]


def _tabs(made: Stage, seconds: float) -> list[Bar]:
    for path in _PATHS:
        made.ask("GET", path)  # What collects has begun, and is part of what is compared.
    time.sleep(5)
    idle, memory = _cpu_share(made, seconds), processes.memory(made.pid)
    ended = threading.Event()

    def tab(number: int) -> None:
        ended.wait(TAB_S * number / TABS)
        while not ended.is_set():
            for path in _PATHS[:2] if number % 2 else _PATHS[2:]:
                made.ask("GET", path)
            ended.wait(TAB_S)

    tabs = [threading.Thread(target=tab, args=(number,), daemon=True) for number in range(TABS)]
    for one in tabs:
        one.start()
    busy = _cpu_share(made, seconds)
    grown = processes.memory(made.pid).own_bytes - memory.own_bytes
    ended.set()
    for one in tabs:
        one.join()
    return [
        Bar(f"{TABS} tabs, of a core", 100 * max(0.0, busy - idle), 3, "at most", "%"),
        Bar(f"{TABS} tabs, memory", grown / 1024**2, 15, "at most", "MiB"),
    ]


def _cpu_share(made: Stage, seconds: float) -> float:
    before = processes.cpu_seconds(made.pid)
    time.sleep(seconds)
    return (processes.cpu_seconds(made.pid) - before) / seconds


def _metrics(made: Stage) -> list[Bar]:
    before, took = _late(made), []
    for _ in range(5):
        began = time.perf_counter()
        made.ask("GET", "/metrics")
        took.append(time.perf_counter() - began)
        time.sleep(1)
    after = _late(made)
    late = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    most = max(late.values(), default=0)
    p99 = next((bound for bound, count in sorted(late.items()) if count >= 0.99 * most), 0.0)
    return [
        Bar("/metrics", sorted(took)[len(took) // 2], 1.0, "at most", "s"),
        Bar("the event loop is late meanwhile, p99 (bucket)", 1000 * p99, 10, "at most", "ms"),
    ]


def _late(made: Stage) -> dict[float, int]:
    text = made.ask("GET", "/metrics")[1].decode()
    return {float(bound.replace("+Inf", "inf")): int(count) for bound, count in _BUCKET.findall(text)}


def _search(made: Stage) -> list[Bar]:
    """Records a second and core that searches for something that is not there read; what collects meanwhile does not
    count."""
    idle = _cpu_share(made, _TWO_PASSES_S)
    return [
        Bar("search, JSON records/s per core", _searched(made, "json.amount < 0", idle), 200_000, "at least", ""),
        Bar("search for a text, records/s per core", _searched(made, 'json.who == "x"', idle), 200_000, "at least", ""),
    ]


def _searched(made: Stage, where: str, idle: float) -> float:
    path = f"/api/v1/topics/{READ}/search?where={quote(where)}&from=earliest"
    before, began_s, scanned = processes.cpu_seconds(made.pid), time.monotonic(), 0
    for _ in range(SEARCHES):
        found = made.get(path)
        passed = found["scanned"]
        while not found["is_complete"]:
            found = made.get(f"{path}&cursor={found['next_cursor']}")
            passed += found["scanned"]
        if passed != RECORDS:
            raise RuntimeError(f"a search read {passed:,} of {RECORDS:,} records")
        scanned += passed
    used = processes.cpu_seconds(made.pid) - before - idle * (time.monotonic() - began_s)
    return scanned / max(0.01, used)
