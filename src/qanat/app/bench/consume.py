"""`qanat bench consume`: how fast a cluster gives records out."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.bench.clients.broker_usage import broker_pids
from qanat.app.bench.clients.librdkafka_properties import Clients, check_properties, clients_of, consumer_properties
from qanat.app.bench.clients.load_progress import load_progress
from qanat.app.bench.clients.options import (
    DEFAULT_LOAD,
    DEFAULT_PLACE,
    DEFAULT_REPORT,
    Load,
    Place,
    Report,
    Writing,
)
from qanat.app.bench.clients.result import (
    Result,
    Sheet,
    error_rows,
    rate_plot,
    settings_of,
    throughput,
    throughput_rows,
    used_figures,
    used_rows,
)
from qanat.app.bench.clients.result_output import show
from qanat.app.bench.clients.temporary_topic import TopicInUse, bounds_of, fresh_name, offset_count, topic_in_use
from qanat.app.bench.clients.worker_messages import Amount, ConsumeTask
from qanat.app.bench.clients.worker_pool import Run, measured
from qanat.app.bench.produce import complaints, writer_properties, writers
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.client_settings import CompressionName
from qanat.app.client.target import HERE, Target, run
from qanat.model.errors import QanatError

DEFAULT_RECORDS = 500_000
Bounds = dict[int, tuple[int, int]]


class TooFewRecordsError(QanatError):
    """The topic has too few records."""


def consume(
    *,
    load: Load = DEFAULT_LOAD,
    place: Place = DEFAULT_PLACE,
    size: Annotated[int | None, Parameter(name=["--size", "-s", "--record-size"])] = None,
    compression: Annotated[CompressionName | None, Parameter(name=["--compression", "-z"])] = None,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    output: Report = DEFAULT_REPORT,
    target: Target = HERE,
) -> int:
    """Measure how fast a cluster gives records out, from the oldest on, and when the first one arrives.

    Without --topic, it fills a temporary one first: with --records, or 500,000. With --topic, it reads the whole topic
    unless --records or --seconds say less. Clients share the partitions; with --group, the group assigns them, and
    joining is part of the time.

        qanat bench consume --records 1000000 --size 1000
        qanat bench consume -b kafka:9092 --topic orders --seconds 10 --clients 4

    Parameters
    ----------
    size:
        Bytes of a record's value in a temporary topic. Default: 100.
    compression:
        Codec of a temporary topic's batches. Default: none.
    group:
        Read as members of this group, from its committed offsets; nothing is committed.
    """
    load.amount()  # Raises where it is wrong; without an amount, everything is read.
    warmup = load.warmup_amount()
    place.check()
    output.check()
    _check(load, place, size, compression, group)
    clients = clients_of(target)
    settings = consumer_properties(clients, group or fresh_name())
    check_properties(settings, "consumer")
    writing = Writing(size=100 if size is None else size, compression=compression)
    writing.check()
    # Every client needs a partition.
    partitions = place.count if place.partitions is not None else load.clients
    with topic_in_use(clients.target, place.topic, partitions, place.copies) as topic:
        if topic.is_temporary:
            count = (DEFAULT_RECORDS if load.records is None else load.records) + (warmup.records or 0)
            fill(topic, clients, writing, count)
        bounds = run(clients.target, lambda cluster: bounds_of(cluster, topic.name))
        wanted = _wanted(topic, bounds, load, warmup, group)
        if group is None:
            tasks = _readers(topic, settings, bounds, wanted, warmup, load.clients, clients.timeout_s)
        else:
            # How much each of several members gets is unknown: they are stopped when all have read enough.
            span = wanted if load.clients == 1 else Amount(seconds=load.seconds)
            tasks = [
                ConsumeTask(topic.name, settings, span, warmup, is_member=True, timeout_s=clients.timeout_s)
            ] * load.clients
        enough = wanted.records if group is not None else None
        with load_progress(f"from {topic.name}", wanted.records, wanted.seconds) as report_progress:
            found = measured(tasks, broker_pids(topic.brokers), report_progress, enough)
    return show(_result(found, topic, clients, load, wanted, group), output)


def _check(load: Load, place: Place, size: int | None, compression: CompressionName | None, group: str | None) -> None:
    for flag, value in (("--size", size), ("--compression", compression)):
        if place.topic is not None and value is not None:
            raise WrongArgumentError(f"{flag} is for a temporary topic: {place.topic} exists already")
    if group == "":
        raise WrongArgumentError("--group must not be empty")
    if place.topic is None and group is None and place.partitions is not None and place.partitions < load.clients:
        raise WrongArgumentError(
            f"--clients {load.clients} with --partitions {place.partitions}: one client reads a partition, "
            "so use as many"
        )


def fill(topic: TopicInUse, clients: Clients, writing: Writing, records: int) -> None:
    """Fill the topic."""
    settings = writer_properties(clients, writing, {"partitioner": "random", "sticky.partitioning.linger.ms": "0"})
    amount = Amount(records=records)
    tasks = writers(topic.name, settings, writing, amount, Amount(records=0), 0.0, 1, clients.timeout_s)
    with load_progress(f"filling {topic.name}", records, None) as report_progress:
        filled = measured(tasks, [], report_progress)
    if filled.was_interrupted:
        raise KeyboardInterrupt
    if filled.written.records < records:
        reasons = filled.written.complaint or ", ".join(filled.written.errors)
        raise TooFewRecordsError(f"only {filled.written.records:,} of {records:,} records could be written: {reasons}")


def _wanted(topic: TopicInUse, bounds: Bounds, load: Load, warmup: Amount, group: str | None) -> Amount:
    """How much to read; raises where the topic has less."""
    there, more = offset_count(bounds), warmup.records or 0
    requested = load.records
    if there == 0:
        raise TooFewRecordsError(
            f"topic {topic.name} is empty: fill it first (qanat bench produce --topic {topic.name} --records 1000000)"
        )
    if requested is not None and there < requested + more:
        warming = f" and --warmup {more:,}" if more else ""
        raise TooFewRecordsError(
            f"topic {topic.name} holds {there:,} records, --records {requested:,}{warming} asks for more: read fewer, "
            f"or write more first (qanat bench produce --topic {topic.name} --records {requested + more - there})"
        )
    if group is None and load.clients > topic.partitions:
        raise WrongArgumentError(
            f"--clients {load.clients}: topic {topic.name} has {topic.partitions} partitions, "
            "and each is read by one client"
        )
    if requested is None and load.seconds is None and group is not None:
        requested = there - more
    return Amount(records=requested, seconds=load.seconds)


def _readers(
    topic: TopicInUse,
    settings: dict[str, str],
    bounds: Bounds,
    wanted: Amount,
    warmup: Amount,
    clients: int,
    timeout_s: float,
) -> list[ConsumeTask]:
    """A task per client: partitions in turn, and a share of the wanted records that its partitions hold."""
    parts = [dict(list(bounds.items())[number::clients]) for number in range(clients)]
    parts = [part for part in parts if offset_count(part)]
    warmups = warmup.shared(len(parts))
    left = None if wanted.records is None else wanted.records + (warmup.records or 0)
    tasks: list[ConsumeTask] = []
    # The client with the fewest records comes first, so that the others take what it lacks.
    for number, part in enumerate(sorted(parts, key=offset_count)):
        own = wanted
        if left is not None:
            share = min(offset_count(part), -(-left // (len(parts) - number)))
            left -= share
            own = Amount(records=max(0, share - (warmups[number].records or 0)))
        offsets = {partition: first for partition, (first, end) in part.items() if end > first}
        tasks.append(ConsumeTask(topic.name, settings, own, warmups[number], offsets=offsets, timeout_s=timeout_s))
    return tasks


def _result(run: Run, topic: TopicInUse, clients: Clients, load: Load, wanted: Amount, group: str | None) -> Result:
    found = run.read
    first_s = found.first_record_s
    figures = throughput(found) | {"first_record_ms": None if first_s is None else round(first_s * 1000, 3)}
    rows = [
        *throughput_rows(figures),
        ("bytes", f"{found.size_bytes:,}"),
        ("first record after", "-" if first_s is None else f"{first_s * 1000:,.1f} ms"),
    ]
    figures |= used_figures(run.used, found.records)
    shown_settings = {
        "topic": "temporary" if topic.is_temporary else topic.name,
        "partitions": topic.partitions,
        "clients": load.clients,
        "group": group,
    }
    complained = complaints(found.complaint, figures["errors"])
    if not complained and not run.was_interrupted and wanted.records is not None and found.records < wanted.records:
        complained = [f"only {found.records:,} of {wanted.records:,} records arrived: the topic holds no more"]
    return Result(
        "consume",
        figures,
        [Sheet(("consume", ""), [*rows, *error_rows(figures), *used_rows(run.used)])],
        rate_plot("Records read a second", {"records/s": found.timeline}),
        settings_of(clients, shown_settings),
        complaints=complained,
        was_interrupted=run.was_interrupted,
    )
