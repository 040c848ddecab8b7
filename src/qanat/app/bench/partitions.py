"""`qanat bench partitions`: what more and more partitions cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.bench.clients.librdkafka_properties import Clients, check_properties, clients_of, consumer_properties
from qanat.app.bench.clients.load_progress import load_progress
from qanat.app.bench.clients.options import (
    DEFAULT_REPORT,
    DEFAULT_WRITING,
    Report,
    Writing,
    at_least,
    positive,
)
from qanat.app.bench.clients.result import Plot, Result, Sheet, milliseconds, settings_of, throughput
from qanat.app.bench.clients.result_output import show
from qanat.app.bench.clients.temporary_topic import (
    BROKERS_DEFAULT,
    bounds_of,
    create_topic,
    delete_topic,
    deleted_afterwards,
    fresh_name,
    offset_count,
)
from qanat.app.bench.clients.worker_messages import Amount, ConsumeTask
from qanat.app.bench.clients.worker_pool import Run, measured
from qanat.app.bench.produce import writer_properties, writers
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.plot import Points, Ticks
from qanat.connection.cluster import Cluster
from qanat.model.errors import QanatError

_METADATA_REQUESTS = 20
"""Number of metadata requests; the median counts."""
_PARTITIONS_MAX = 1_000_000
_HEADINGS = (
    "partitions",
    "created in",
    "metadata",
    "produced/s",
    "MB/s",
    "latency p99",
    "consumed/s",
    "deleted in",
    "errors",
)


def partitions(
    *,
    counts: str = "1,100,1000",
    seconds: Annotated[float, Parameter(name=["--seconds", "--duration"])] = 5.0,
    clients: Annotated[int, Parameter(name=["--clients", "--threads"])] = 1,
    replication_factor: Annotated[int | None, Parameter(name=["--replication-factor", "-r", "--replicas"])] = None,
    writing: Writing = DEFAULT_WRITING,
    output: Report = DEFAULT_REPORT,
    target: Target = HERE,
) -> int:
    """Measure a topic with one partition, then with more: creation, metadata, writes, reads, deletion.

    Each topic is temporary. Records go to random partitions, so that all of them are in use.

        qanat bench partitions --counts 1,100,1000,5000 --seconds 10
        qanat bench partitions -b kafka:9092 --replication-factor 3 --html growth.html

    Parameters
    ----------
    counts:
        Numbers of partitions, separated by commas.
    seconds:
        How long each topic is written to; everything is read afterwards.
    clients:
        Number of producers.
    replication_factor:
        Replicas of each partition; the broker's default otherwise.
    """
    sizes = _counts(counts)
    positive("--seconds", seconds)
    at_least("--clients", clients, 1, 10_000)
    writing.check()
    output.check()
    connected = clients_of(target)
    settings = writer_properties(connected, writing, {"partitioner": "random", "sticky.partitioning.linger.ms": "0"})
    check_properties(consumer_properties(connected, fresh_name()), "consumer")
    copies = BROKERS_DEFAULT if replication_factor is None else replication_factor
    run(connected.target, lambda cluster: cluster.metadata([], cluster.deadline()))
    rows: list[dict[str, Any]] = []
    complaints: list[str] = []
    is_interrupted = False
    try:
        for count in sizes:
            growth = _Growth(connected, writing, settings, count, copies, seconds, clients)
            growth.measure()
            rows.append(growth.row)
            is_interrupted = growth.was_interrupted
            if is_interrupted:
                break
    except KeyboardInterrupt:
        is_interrupted = True
    except QanatError as fault:
        if not rows:
            raise
        complaints.append(f"{sizes[len(rows)]:,} partitions: {fault}")
    complaints += [f"{row['partitions']:,} partitions: {row['complaint']}" for row in rows if row["complaint"]]
    shown_settings = {"seconds": f"{seconds:g}", "clients": clients, "size": writing.size, **writing.properties()}
    result = Result(
        "partitions",
        {"counts": rows},
        [Sheet(_HEADINGS, [_cells(row) for row in rows])],
        _plots(rows),
        settings_of(connected, shown_settings),
        complaints=complaints,
        was_interrupted=is_interrupted,
    )
    return show(result, output)


def _counts(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.replace("_", "").split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or not all(1 <= count <= _PARTITIONS_MAX for count in found):
        raise WrongArgumentError(f"--counts {text}: write numbers of partitions with commas, as in 1,100,1000")
    return found


class _Growth:
    """One topic from creation to deletion."""

    def __init__(
        self,
        clients: Clients,
        writing: Writing,
        settings: dict[str, str],
        count: int,
        copies: int,
        seconds: float,
        writers_count: int,
    ) -> None:
        self._clients, self._writing, self._settings = clients, writing, settings
        self._count, self._copies, self._seconds, self._writers = count, copies, seconds, writers_count
        self._topic = fresh_name()
        self.was_interrupted = False
        self.row: dict[str, Any] = {
            "partitions": count,
            "create_ms": None,
            "metadata_ms": None,
            "produce": None,
            "latency_ms": {},
            "consume": None,
            "delete_ms": None,
            "complaint": "",
        }

    def measure(self) -> None:
        target = self._clients.target
        with deleted_afterwards(target, self._topic):
            self.row["create_ms"], self.row["metadata_ms"] = run(target, self._create)
            written = self._produce()
            if not written.was_interrupted and written.written.records:
                self._consume()
            if not self.was_interrupted:
                self.row["delete_ms"] = run(target, self._delete)

    async def _create(self, cluster: Cluster) -> tuple[float, float]:
        await cluster.metadata([], cluster.deadline())  # Connecting is not part of the time.
        began_s = time.monotonic()
        await create_topic(cluster, self._topic, self._count, self._copies)
        create_ms = (time.monotonic() - began_s) * 1000
        took: list[float] = []
        for _ in range(_METADATA_REQUESTS):
            began_s = time.monotonic()
            await cluster.metadata([self._topic], cluster.deadline())
            took.append((time.monotonic() - began_s) * 1000)
        return round(create_ms, 3), round(statistics.median(took), 3)

    def _produce(self) -> Run:
        amount, none = Amount(seconds=self._seconds), Amount(records=0)
        timeout_s = self._clients.timeout_s
        tasks = writers(self._topic, self._settings, self._writing, amount, none, 0.0, self._writers, timeout_s)
        with load_progress(f"{self._count:,} partitions: writing", None, self._seconds) as report_progress:
            found = measured(tasks, [], report_progress)
        self.row["produce"] = throughput(found.written)
        self.row["latency_ms"] = found.written.latencies().summary()
        self._note(found, found.written.complaint)
        return found

    def _consume(self) -> None:
        bounds = run(self._clients.target, lambda cluster: bounds_of(cluster, self._topic))
        offsets = {partition: first for partition, (first, end) in bounds.items() if end > first}
        settings = consumer_properties(self._clients, fresh_name())
        amount, none = Amount(), Amount(records=0)
        task = ConsumeTask(self._topic, settings, amount, none, offsets=offsets, timeout_s=self._clients.timeout_s)
        with load_progress(f"{self._count:,} partitions: reading", offset_count(bounds), None) as report_progress:
            found = measured([task], [], report_progress)
        self.row["consume"] = throughput(found.read)
        self._note(found, found.read.complaint)

    async def _delete(self, cluster: Cluster) -> float:
        await cluster.metadata([], cluster.deadline())
        began_s = time.monotonic()
        await delete_topic(cluster, self._topic)
        return round((time.monotonic() - began_s) * 1000, 3)

    def _note(self, found: Run, complaint: str) -> None:
        self.was_interrupted = found.was_interrupted
        errors = (found.written.errors + found.read.errors).total()
        text = complaint or (f"{errors:,} errors" if errors else "")
        self.row["complaint"] = self.row["complaint"] or text


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    produced, consumed, latency = row["produce"], row["consume"], row["latency_ms"]
    errors = sum(part["errors"] for part in (produced, consumed) if part)
    return (
        f"{row['partitions']:,}",
        _shown(row["create_ms"], milliseconds),
        _shown(row["metadata_ms"], milliseconds),
        f"{produced['records_per_s']:,.0f}" if produced else "-",
        f"{produced['mb_per_s']:,.2f}" if produced else "-",
        _shown(latency.get("p99"), milliseconds),
        f"{consumed['records_per_s']:,.0f}" if consumed else "-",
        _shown(row["delete_ms"], milliseconds),
        f"{errors:,}",
    )


def _shown(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)


def _plots(rows: list[dict[str, Any]]) -> list[Plot]:
    """Plots over the number of partitions, in powers of ten."""
    from math import log10

    def line(value: Callable[[dict[str, Any]], float | None]) -> Points:
        return [(log10(row["partitions"]), found) for row in rows if (found := value(row)) is not None]

    def ticks(first: float, last: float) -> Ticks:
        return [(log10(row["partitions"]), f"{row['partitions']:,}") for row in rows]

    lines = {
        "Records a second": {
            "produced": line(lambda row: row["produce"] and row["produce"]["records_per_s"]),
            "consumed": line(lambda row: row["consume"] and row["consume"]["records_per_s"]),
        },
        "Creation and deletion (ms)": {
            "created": line(lambda row: row["create_ms"]),
            "deleted": line(lambda row: row["delete_ms"]),
        },
        "Metadata (ms)": {"answered": line(lambda row: row["metadata_ms"])},
    }
    kept = {title: {name: points for name, points in parts.items() if points} for title, parts in lines.items()}
    return [Plot(title, parts, "partitions", ticks) for title, parts in kept.items() if parts]
