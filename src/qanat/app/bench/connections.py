"""`qanat bench connections`: how long connecting takes, and what many connections cost requests.

Connections are those of `connection`, a socket each and nothing more, so that thousands fit into one process. Each
opens as any client's: TLS and SASL where the cluster requires them, and ApiVersions.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.bench.clients.broker_usage import Usage, broker_pids, usage
from qanat.app.bench.clients.latencies import Latencies
from qanat.app.bench.clients.librdkafka_properties import Clients, clients_of
from qanat.app.bench.clients.options import DEFAULT_REPORT, Report, at_least, positive, rate_of
from qanat.app.bench.clients.result import Result, Sheet, latency_plot, milliseconds, settings_of, used_rows
from qanat.app.bench.clients.result_output import show
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.progress import status_line
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
    output: Report = DEFAULT_REPORT,
    target: Target = HERE,
) -> int:
    """Measure how long connecting takes, and what many connections cost requests.

    It times requests on one connection alone, on one beside many idle ones, and on many at once. A request is for the
    cluster's metadata without topics; its latency counts from the time at which it should be sent.

        qanat bench connections --connections 5000
        qanat bench connections -b kafka:9092 --active 100 --rate 5000 --json

    Parameters
    ----------
    connections:
        Number of connections.
    active:
        How many of them send requests in the last part. Default: all.
    concurrency:
        How many are opened at the same time.
    rate:
        Requests a second, of all connections together.
    seconds:
        Duration of each part.
    """
    at_least("--connections", connections, 1, 1_000_000)
    active_count = connections if active is None else active
    at_least("--active", active_count, 1, connections)
    at_least("--concurrency", concurrency, 1, 100_000)
    positive("--seconds", seconds)
    pace = rate_of(rate)
    if not pace:
        raise WrongArgumentError("connections needs a --rate: requests a second")
    output.check()
    clients = clients_of(target)
    _make_room(connections)
    bench = _Bench(clients, connections, active_count, concurrency, pace, seconds)
    is_interrupted = False
    with status_line() as report_progress:
        bench.report_progress = report_progress
        try:
            run(clients.target, bench.measure)
        except KeyboardInterrupt:
            is_interrupted = True
    shown_settings = {
        "connections": connections,
        "active": active_count,
        "concurrency": concurrency,
        "rate": f"{pace:g} requests/s",
        "seconds": f"{seconds:g}",
    }
    return show(bench.result(settings_of(clients, shown_settings), is_interrupted), output)


def _make_room(count: int) -> None:
    """Raise the limit of descriptors, one per connection; raises where the hard limit is lower."""
    needed = count + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise WrongArgumentError(
            f"--connections {count}: needs {needed:,} descriptors, the limit of this process is {hard:,} (ulimit -Hn)"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class _Part:
    """One part of the run: latencies and errors."""

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
        percentiles = (milliseconds(summary[share]) if summary else "-" for share in _SHARES)
        rate = f"{count / self.seconds:,.0f}" if self.seconds else "-"
        return (self.what, f"{count:,}", rate, *percentiles, f"{self.errors.total():,}")


class _Bench:
    """The parts of the run, in order."""

    def __init__(
        self, clients: Clients, count: int, active: int, concurrency: int, rate: float, seconds: float
    ) -> None:
        self._clients, self._count, self._active = clients, count, active
        self._concurrency, self._rate, self._seconds = concurrency, rate, seconds
        self._timeout_s = clients.timeout_s
        self._security: Security = clients.client_settings.security()
        self._links: list[Link] = []
        self._pids: list[int] = []
        self._memory: list[int] = []
        self.report_progress: Callable[[str], None] = lambda text: None
        self.parts: list[_Part] = []

    async def measure(self, cluster: Cluster) -> None:
        metadata = await cluster.metadata([], cluster.deadline())
        brokers: list[Address] = [(broker.host, broker.port) for broker in metadata.brokers]
        self._pids = broker_pids(brokers)
        probe = await self._open(brokers[0])
        try:
            await self._send_requests("alone", "one alone", [probe])
            self._look()
            await self._connect(brokers)
            self._look()
            if self._links:
                await self._send_requests("idle", f"beside {len(self._links):,} idle", [probe])
                await self._send_requests(
                    "active", f"{min(self._active, len(self._links)):,} active", self._links[: self._active]
                )
        finally:
            for link in (probe, *self._links):
                await link.close()

    async def _open(self, address: Address) -> Link:
        deadline = Deadline.after(self._timeout_s)
        return await Link.open(*address, "qanat-bench", deadline, self._security)

    def _begin(self, name: str, what: str) -> _Part:
        self.report_progress(what)
        part = _Part(name, what)
        self.parts.append(part)
        return part

    async def _connect(self, brokers: Sequence[Address]) -> None:
        """Open all connections, `concurrency` at a time."""
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

    async def _send_requests(self, name: str, what: str, links: Sequence[Link]) -> None:
        """Send requests at a rate; latency counts from the time at which a request should be sent."""
        part = self._begin(name, what)
        began_s, interval_s = time.monotonic(), 1 / self._rate
        pending: set[asyncio.Task[None]] = set()
        try:
            for number in range(max(1, round(self._rate * self._seconds))):
                intended_s = began_s + number * interval_s
                pause_s = intended_s - time.monotonic()
                if pause_s > 0:
                    await asyncio.sleep(pause_s)
                elif number % 100 == 0:
                    await asyncio.sleep(0)
                task = asyncio.create_task(self._send_request(part, links[number % len(links)], intended_s))
                pending.add(task)
                task.add_done_callback(pending.discard)
                part.seconds = time.monotonic() - began_s
            while pending:
                await asyncio.wait(pending)
        finally:
            for task in pending:
                task.cancel()
        part.seconds = time.monotonic() - began_s

    async def _send_request(self, part: _Part, link: Link, intended_s: float) -> None:
        try:
            await link.call(ApiKey.METADATA, MetadataRequest(topics=[]), Deadline.after(self._timeout_s))
        except (QanatError, OSError) as fault:
            part.errors[str(fault)] += 1
        else:
            part.latencies.record(int((time.monotonic() - intended_s) * 1_000_000))

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
        complaints = [f"{count:,} times: {reason}" for reason, count in errors.most_common(5)]
        return Result(
            "connections",
            figures,
            sheets,
            latency_plot("Latency by percentile", {part.name: part.latencies for part in self.parts}),
            settings,
            complaints=complaints,
            was_interrupted=was_interrupted,
        )
