"""`qanat bench connections`: how long it takes to connect, and what many connections do to those who ask.

Connections are our own, a socket each and nothing more, so that thousands fit into one process. Each is let in as any
client is: TLS and SASL where the cluster wants them, and the versions asked for.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.bench.broker.latencies import Latencies
from qanat.app.bench.broker.local import Usage, broker_pids, usage
from qanat.app.bench.broker.options import SHOWN, Report, at_least, positive, rate_of
from qanat.app.bench.broker.properties import Clients, clients_of
from qanat.app.bench.broker.result import (
    Result,
    Sheet,
    latency_plot,
    milliseconds,
    settings_of,
    show,
    used_rows,
)
from qanat.app.session import HERE, Target, WrongArgumentError, run
from qanat.app.terminal.progress import told_status
from qanat.connection.cluster import Address, Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.connection.security import Security
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.registry import ApiKey

_SPARE_DESCRIPTORS = 200
_SHARES = ("p50", "p95", "p99", "p99.9", "max")


def connections(
    *,
    connections: Annotated[int, Parameter(name=["--connections", "-c"])] = 1000,
    active: int | None = None,
    concurrency: int = 50,
    rate: float = 1000,
    seconds: Annotated[float, Parameter(name=["--seconds", "--duration"])] = 5.0,
    output: Report = SHOWN,
    target: Target = HERE,
) -> int:
    """Measure how long connecting takes, and what many connections do to those who ask.

    Requests are timed on one connection alone, on one beside many idle ones, and on many at once. A request
    asks for the cluster's metadata without topics; its latency counts from the moment at which it was to be sent.

        qanat bench connections --connections 5000
        qanat bench connections -b kafka:9092 --active 100 --rate 5000 --json

    Parameters
    ----------
    connections:
        How many are opened.
    active:
        How many of them ask in the last part; all if not given.
    concurrency:
        How many are being opened at the same time.
    rate:
        Requests a second, of all connections together.
    seconds:
        How long each part takes.
    """
    at_least("--connections", connections, 1, 1_000_000)
    asking = connections if active is None else active
    at_least("--active", asking, 1, connections)
    at_least("--concurrency", concurrency, 1, 100_000)
    positive("--seconds", seconds)
    pace = rate_of(rate)
    if not pace:
        raise WrongArgumentError("connections needs a --rate: requests a second")
    output.check()
    clients = clients_of(target)
    _make_room(connections)
    bench = _Bench(clients, connections, asking, concurrency, pace, seconds)
    is_interrupted = False
    with told_status() as tell:
        bench.tell = tell
        try:
            run(clients.target, bench.measure)
        except KeyboardInterrupt:
            is_interrupted = True
    said = {
        "connections": connections,
        "active": asking,
        "concurrency": concurrency,
        "rate": f"{pace:g} requests/s",
        "seconds": f"{seconds:g}",
    }
    return show(bench.result(settings_of(clients, said), is_interrupted), output)


def _make_room(count: int) -> None:
    """A descriptor each; raises where this process may not have so many."""
    needed = count + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise WrongArgumentError(
            f"--connections {count}: {needed:,} descriptors are needed, this process may have {hard:,} (ulimit -Hn)"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class _Part:
    """One part of the run: how long single things took, and what went wrong."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self.what = name, what
        self.latencies = Latencies()
        self.errors: Counter[str] = Counter()
        self.seconds = 0.0
        self.used: Usage | None = None

    def figures(self) -> dict[str, Any]:
        count = self.latencies.count
        return {
            "part": self.name,
            "count": count,
            "seconds": round(self.seconds, 6),
            "per_s": round(count / self.seconds, 3) if self.seconds else 0.0,
            "latency_ms": self.latencies.summary(),
            "errors": self.errors.total(),
            "error_reasons": dict(self.errors),
        }

    def cells(self) -> tuple[str, ...]:
        summary, count = self.latencies.summary(), self.latencies.count
        told = (milliseconds(summary[share]) if summary else "-" for share in _SHARES)
        rate = f"{count / self.seconds:,.0f}" if self.seconds else "-"
        return (self.what, f"{count:,}", rate, *told, f"{self.errors.total():,}")


class _Bench:
    """The parts in their order."""

    def __init__(
        self, clients: Clients, count: int, active: int, concurrency: int, rate: float, seconds: float
    ) -> None:
        self._clients, self._count, self._active = clients, count, active
        self._concurrency, self._rate, self._seconds = concurrency, rate, seconds
        self._timeout_s = clients.timeout_s
        self._security: Security = clients.given.security()
        self._links: list[Link] = []
        self._pids: list[int] = []
        self._memory: list[int] = []
        self.tell: Callable[[str], None] = lambda text: None
        self.parts: list[_Part] = []

    async def measure(self, cluster: Cluster) -> None:
        metadata = await cluster.metadata([], cluster.deadline())
        brokers: list[Address] = [(broker.host, broker.port) for broker in metadata.brokers]
        self._pids = broker_pids(brokers)
        probe = await self._open(brokers[0])
        try:
            await self._ask("alone", "one alone", [probe])
            self._look()
            await self._connect(brokers)
            self._look()
            if self._links:
                await self._ask("idle", f"beside {len(self._links):,} idle", [probe])
                await self._ask(
                    "active", f"{min(self._active, len(self._links)):,} active", self._links[: self._active]
                )
        finally:
            for link in (probe, *self._links):
                await link.close()

    async def _open(self, address: Address) -> Link:
        deadline = Deadline.after(self._timeout_s)
        return await Link.open(*address, "qanat-bench", deadline, self._security)

    def _begin(self, name: str, what: str) -> _Part:
        self.tell(what)
        part = _Part(name, what)
        self.parts.append(part)
        return part

    async def _connect(self, brokers: Sequence[Address]) -> None:
        """So many at a time, the next as soon as one is done."""
        part = self._begin("connect", "connecting")
        waiting = iter(range(self._count))
        began_s = time.monotonic()

        async def connect_some() -> None:
            for number in waiting:
                start_ns = time.monotonic_ns()
                try:
                    self._links.append(await self._open(brokers[number % len(brokers)]))
                except (QanatError, OSError) as fault:
                    part.errors[str(fault)] += 1
                else:
                    part.latencies.record((time.monotonic_ns() - start_ns) // 1000)
                part.seconds = time.monotonic() - began_s

        await asyncio.gather(*(connect_some() for _ in range(min(self._concurrency, self._count))))

    async def _ask(self, name: str, what: str, links: Sequence[Link]) -> None:
        """At a rate; who is late is late from when it should have been sent."""
        part = self._begin(name, what)
        began_s, interval_s = time.monotonic(), 1 / self._rate
        under_way: set[asyncio.Task[None]] = set()
        try:
            for number in range(max(1, round(self._rate * self._seconds))):
                meant_s = began_s + number * interval_s
                pause_s = meant_s - time.monotonic()
                if pause_s > 0:
                    await asyncio.sleep(pause_s)
                elif number % 100 == 0:
                    await asyncio.sleep(0)
                task = asyncio.create_task(self._ask_one(part, links[number % len(links)], meant_s))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                part.seconds = time.monotonic() - began_s
            while under_way:
                await asyncio.wait(under_way)
        finally:
            for task in under_way:
                task.cancel()
        part.seconds = time.monotonic() - began_s

    async def _ask_one(self, part: _Part, link: Link, meant_s: float) -> None:
        try:
            await link.call(ApiKey.METADATA, MetadataRequest(topics=[]), Deadline.after(self._timeout_s))
        except (QanatError, OSError) as fault:
            part.errors[str(fault)] += 1
        else:
            part.latencies.record(int((time.monotonic() - meant_s) * 1_000_000))

    def _look(self) -> None:
        found = usage(self._pids)
        if found is not None:
            self._memory.append(found.resident_bytes)

    def result(self, settings: dict[str, str], was_interrupted: bool) -> Result:
        figures: dict[str, Any] = {"parts": [part.figures() for part in self.parts]}
        sheets = [Sheet(("connections", "count", "/s", *_SHARES, "errors"), [part.cells() for part in self.parts])]
        if len(self._memory) == 2 and self._links:
            grown = max(0, self._memory[1] - self._memory[0])
            figures["broker"] = {
                "resident_bytes": self._memory[1],
                "grown_bytes_per_connection": round(grown / len(self._links)),
            }
            rows = [
                *used_rows(Usage(0.0, self._memory[1]))[1:],
                ("broker memory per connection", f"{grown / len(self._links) / 1000:,.1f} kB"),
            ]
            sheets.append(Sheet(("", ""), rows))
        errors = sum((part.errors for part in self.parts), Counter[str]())
        told = [f"{count:,} times: {reason}" for reason, count in errors.most_common(5)]
        return Result(
            "connections",
            figures,
            sheets,
            latency_plot("Latency by percentile", {part.name: part.latencies for part in self.parts}),
            settings,
            complaints=told,
            was_interrupted=was_interrupted,
        )
