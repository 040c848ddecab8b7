"""One side of a comparison: a server, its client, and one run of a workload on it."""

from __future__ import annotations

import contextlib
import time
from typing import Protocol

from tools.servers import Running

from bench import processes
from bench.clients import Client, DriverFailedError, Task
from bench.cold import make_cold
from bench.frames import fetch_frame, produce_frame
from bench.memory import have_memory
from bench.workloads import BATCHED, Sample, Workload

PAUSE_SECONDS = 0.2
_SETTLE_ATTEMPTS = 4
"""Each of a minute, after which the driver gives up."""
_AROUND_BYTES = 100
"""Overhead of a record that is sent alone, roughly."""
WARM_UP = Task("produce", "warm-up", 100, 300_000, settings=BATCHED)


class Side(Protocol):
    """A server, and its client."""

    def prepare(self, workload: Workload) -> None: ...
    def sample(self, workload: Workload) -> Sample: ...
    def clear(self, workload: Workload) -> None: ...


class BrokerSide:
    """A broker, under load by the client."""

    def __init__(self, client: Client, running: Running) -> None:
        self._client = client
        self._running = running

    def warm_up(self) -> None:
        """A run that warms the server up, before measurements."""
        self._run(Task("create", WARM_UP.topic))
        self._run(WARM_UP)

    def prepare(self, workload: Workload) -> None:
        """Create the topic that all rounds use, and fill it where the workload reads it."""
        if workload.is_kept or workload.is_filled:
            self._create(workload)
        if workload.is_filled:
            self._fill(workload)
        elif workload.is_kept:
            self._settle(workload)

    def sample(self, workload: Workload) -> Sample:
        """One run, on a new topic unless the workload uses an existing one."""
        spent: list[float] = []

        def begin() -> None:
            have_memory(workload.count * (workload.size + _AROUND_BYTES) * len(self._running.pids))
            look()

        def look() -> None:
            spent.append(sum(map(processes.cpu_seconds, self._running.pids)))

        is_new = not (workload.is_filled or workload.is_kept)
        if is_new:
            self._create(workload)
        if workload.is_cold:
            self._fill(workload)
            assert self._running.folder is not None, "files of several servers are not looked for"
            make_cold(self._running.folder)
        found = self._client.run(self._running.address, _task(workload), begin, look)
        if is_new:
            self._run(Task("delete", workload.name))
            time.sleep(PAUSE_SECONDS)
        return Sample(found, spent[1] - spent[0])

    def clear(self, workload: Workload) -> None:
        """Remove the topic that all rounds used."""
        if workload.is_kept or workload.is_filled:
            self._run(Task("delete", workload.name))

    def _settle(self, workload: Workload) -> None:
        """Write to every partition once: Kafka creates thousands of them long after it has answered."""
        task = Task(
            "produce", workload.name, workload.size, int(workload.topic["partitions"]), settings=workload.client
        )
        for _ in range(_SETTLE_ATTEMPTS - 1):
            with contextlib.suppress(DriverFailedError):
                return self._run(task)
        return self._run(task)

    def _create(self, workload: Workload) -> None:
        self._run(Task("create", workload.name, settings=workload.topic))

    def _fill(self, workload: Workload) -> None:
        settings = {**BATCHED, **(workload.filling or {})}
        each = workload.count // int(workload.client.get("driver.clients", "1"))
        self._run(Task("produce", workload.name, workload.size, each, settings=settings))

    def _run(self, task: Task) -> None:
        self._client.run(self._running.address, task)


def _task(workload: Workload) -> Task:
    settings = dict(workload.client)
    if "driver.records" in settings:
        settings["driver.frame"] = produce_frame(workload.name, workload.size, int(settings["driver.records"])).hex()
    elif "driver.clients" in settings:
        settings["driver.frame"] = fetch_frame(workload.name).hex()
    return Task(workload.mode, workload.name, workload.size, workload.count, workload.rate, settings)
