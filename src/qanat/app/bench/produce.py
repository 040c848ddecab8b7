"""`qanat bench produce`: how fast a cluster takes records."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.bench.clients.broker_usage import broker_pids
from qanat.app.bench.clients.librdkafka_properties import Clients, check_properties, clients_of, producer_properties
from qanat.app.bench.clients.load_progress import load_progress
from qanat.app.bench.clients.options import (
    DEFAULT_LOAD,
    DEFAULT_PLACE,
    DEFAULT_REPORT,
    DEFAULT_WRITING,
    Load,
    Place,
    Report,
    Writing,
    rate_of,
)
from qanat.app.bench.clients.result import (
    Result,
    Sheet,
    error_rows,
    lag_notes,
    latency_plot,
    latency_rows,
    rate_plot,
    settings_of,
    throughput,
    throughput_rows,
    used_figures,
    used_rows,
)
from qanat.app.bench.clients.result_output import show
from qanat.app.bench.clients.temporary_topic import TopicInUse, fresh_name, topic_in_use
from qanat.app.bench.clients.worker_messages import Amount, ProduceTask
from qanat.app.bench.clients.worker_pool import Run, measured
from qanat.app.client.target import HERE, Target


def produce(
    *,
    load: Load = DEFAULT_LOAD,
    place: Place = DEFAULT_PLACE,
    writing: Writing = DEFAULT_WRITING,
    rate: Annotated[float, Parameter(name=["--rate", "--throughput"])] = 0,
    output: Report = DEFAULT_REPORT,
    target: Target = HERE,
) -> int:
    """Measure how fast a cluster takes records, and how long each waits for its acknowledgement.

    With --rate, latency counts from the time at which a record should be sent, even if the broker delayed the ones
    before it. Without, it counts from the client's call of produce.

        qanat bench produce --records 1000000 --size 1000 --acks all --compression lz4
        qanat bench produce -b kafka:9092 --topic orders --seconds 30 --rate 5000 --html produce.html

    Parameters
    ----------
    rate:
        Records a second of all clients together; 0 is without a limit.
    """
    amount, warmup, pace = load.amount(), load.warmup_amount(), rate_of(rate)
    place.check()
    writing.check()
    output.check()
    clients = clients_of(target)
    settings = writer_properties(clients, writing)
    with topic_in_use(clients.target, place.topic, place.count, place.copies) as topic:
        tasks = writers(topic.name, settings, writing, amount, warmup, pace, load.clients, clients.timeout_s)
        with load_progress(f"to {topic.name}", amount.records, amount.seconds) as report_progress:
            run = measured(tasks, broker_pids(topic.brokers), report_progress)
    return show(_result(run, topic, clients, load, writing, pace), output)


def writer_properties(clients: Clients, writing: Writing, more: dict[str, str] | None = None) -> dict[str, str]:
    """librdkafka's properties of every producer of a run, checked."""
    settings = producer_properties(clients, writing.size, writing.properties() | (more or {}))
    if writing.transactional:
        # A record may wait as long as its transaction.
        settings.pop("message.timeout.ms", None)
        settings.setdefault("transaction.timeout.ms", str(max(60_000, 2 * (writing.transaction_ms or 0))))
    check_properties(settings | ({"transactional.id": "check"} if writing.transactional else {}), "producer")
    return settings


def writers(
    topic: str,
    settings: dict[str, str],
    writing: Writing,
    amount: Amount,
    warmup: Amount,
    rate: float,
    clients: int,
    timeout_s: float,
    stamp: str = "",
) -> list[ProduceTask]:
    """A task for each client; no more clients than records."""
    if amount.records is not None:
        clients = min(clients, amount.records)
    name = fresh_name()
    return [
        ProduceTask(
            topic,
            settings | ({"transactional.id": f"{name}-{number}"} if writing.transactional else {}),
            writing.size,
            own,
            own_warmup,
            rate / clients,
            stamp,
            writing.transaction_s,
            timeout_s,
        )
        for number, (own, own_warmup) in enumerate(zip(amount.shared(clients), warmup.shared(clients), strict=True))
    ]


def _result(run: Run, topic: TopicInUse, clients: Clients, load: Load, writing: Writing, rate: float) -> Result:
    found = run.written
    latencies, commits = found.latencies(), found.commit_latencies()
    figures = throughput(found) | {"latency_ms": latencies.summary()}
    rows = [*throughput_rows(figures), *latency_rows("latency", figures["latency_ms"])]
    if writing.transactional:
        figures |= {"transactions": found.commits, "commit_ms": commits.summary()}
        rows += [("transactions", f"{found.commits:,}"), *latency_rows("commit", figures["commit_ms"])]
    figures |= used_figures(run.used, found.records)
    figures["histogram"] = latencies.encoded()
    return Result(
        "produce",
        figures,
        [Sheet(("produce", ""), [*rows, *error_rows(figures), *used_rows(run.used)])],
        [
            *rate_plot("Records acknowledged a second", {"records/s": found.timeline}),
            *latency_plot("Latency by percentile", {"acknowledged": latencies, "committed": commits}),
        ],
        settings_of(clients, writing_settings(topic, load, writing, rate)),
        notes=lag_notes(found, rate),
        complaints=complaints(found.complaint, figures["errors"]),
        was_interrupted=run.was_interrupted,
    )


def writing_settings(topic: TopicInUse, load: Load, writing: Writing, rate: float) -> dict[str, Any]:
    """The settings of a run that writes, as its result shows them."""
    return {
        "topic": "temporary" if topic.is_temporary else topic.name,
        "partitions": topic.partitions,
        "clients": load.clients,
        "size": writing.size,
        "rate": f"{rate:g} records/s" if rate else "no limit",
        "latency counts from": "the intended time" if rate else "the call of produce",
        **writing.properties(),
        "transaction": f"{writing.transaction_s * 1000:g} ms" if writing.transactional else None,
    }


def complaints(ended_because: str, errors: int) -> list[str]:
    """The reasons why a run failed."""
    if ended_because:
        return [f"ended early: {ended_because}"]
    return [f"{errors:,} records were refused or lost; the results say why"] if errors else []
