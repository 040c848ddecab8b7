"""`qanat bench consume`: how fast records are read."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.bench.broker.crew import Run, measured
from qanat.app.bench.broker.local import broker_pids
from qanat.app.bench.broker.options import (
    ANYWHERE,
    SHOWN,
    SOME,
    Load,
    Place,
    Report,
    Writing,
)
from qanat.app.bench.broker.produce import complaints, writer_properties, writers
from qanat.app.bench.broker.properties import Clients, check_properties, clients_of, consumer_properties
from qanat.app.bench.broker.result import (
    Result,
    Sheet,
    error_rows,
    rate_plot,
    settings_of,
    show,
    throughput,
    throughput_rows,
    told_load,
    used_figures,
    used_rows,
)
from qanat.app.bench.broker.tasks import Amount, ConsumeTask
from qanat.app.bench.broker.temporary import TopicInUse, bounds_of, fresh_name, held, topic_in_use
from qanat.app.client_settings import CompressionName
from qanat.app.session import HERE, Target, WrongArgumentError, run
from qanat.model.errors import QanatError

DEFAULT_RECORDS = 500_000
Bounds = dict[int, tuple[int, int]]


class TooFewRecordsError(QanatError):
    """There is not enough to read."""


def consume(
    *,
    load: Load = SOME,
    place: Place = ANYWHERE,
    size: Annotated[int | None, Parameter(name=["--size", "-s", "--record-size"])] = None,
    compression: Annotated[CompressionName | None, Parameter(name=["--compression", "-z"])] = None,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    output: Report = SHOWN,
    target: Target = HERE,
) -> int:
    """Measure how fast a cluster gives records out, from the oldest on, and how soon the first one comes.

    Without --topic, a temporary one is filled first: with --records, or 500,000. With it, everything is read that is
    there, unless --records or --seconds say less. Clients share the partitions; with --group, the group divides them
    and joining it is part of the time.

        qanat bench consume --records 1000000 --size 1000
        qanat bench consume -b kafka:9092 --topic orders --seconds 10 --clients 4

    Parameters
    ----------
    size:
        Bytes of a record's value in a temporary topic; 100 if not given.
    compression:
        Codec of a temporary topic's batches; none unless it is said.
    group:
        Read as members of this group, from where it stands; nothing is committed.
    """
    load.amount()  # Says what is wrong with it; without any, everything is read.
    warmup = load.warmup_amount()
    place.check()
    output.check()
    _check(load, place, size, compression, group)
    clients = clients_of(target)
    settings = consumer_properties(clients, group or fresh_name())
    check_properties(settings, "consumer")
    writing = Writing(size=100 if size is None else size, compression=compression)
    writing.check()
    # Everybody is to have something to read.
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
            # Of several, nobody knows who will get how much: they are stopped when it is enough.
            span = wanted if load.clients == 1 else Amount(seconds=load.seconds)
            tasks = [
                ConsumeTask(topic.name, settings, span, warmup, is_member=True, patience_s=clients.timeout_s)
            ] * load.clients
        enough = wanted.records if group is not None else None
        with told_load(f"from {topic.name}", wanted.records, wanted.seconds) as tell:
            found = measured(tasks, broker_pids(topic.brokers), tell, enough)
    return show(_result(found, topic, clients, load, wanted, group), output)


def _check(load: Load, place: Place, size: int | None, compression: CompressionName | None, group: str | None) -> None:
    for flag, given in (("--size", size), ("--compression", compression)):
        if place.topic is not None and given is not None:
            raise WrongArgumentError(f"{flag} is for a temporary topic: {place.topic} is as it is")
    if group == "":
        raise WrongArgumentError("--group must not be empty")
    if place.topic is None and group is None and place.partitions is not None and place.partitions < load.clients:
        raise WrongArgumentError(
            f"--clients {load.clients} with --partitions {place.partitions}: a partition is read by one client, "
            "so give as many"
        )


def fill(topic: TopicInUse, clients: Clients, writing: Writing, records: int) -> None:
    """Write what is to be read."""
    settings = writer_properties(clients, writing, {"partitioner": "random", "sticky.partitioning.linger.ms": "0"})
    amount = Amount(records=records)
    tasks = writers(topic.name, settings, writing, amount, Amount(records=0), 0.0, 1, clients.timeout_s)
    with told_load(f"filling {topic.name}", records, None) as tell:
        filled = measured(tasks, [], tell)
    if filled.was_interrupted:
        raise KeyboardInterrupt
    if filled.written.records < records:
        reasons = filled.written.complaint or ", ".join(filled.written.errors)
        raise TooFewRecordsError(f"only {filled.written.records:,} of {records:,} records could be written: {reasons}")


def _wanted(topic: TopicInUse, bounds: Bounds, load: Load, warmup: Amount, group: str | None) -> Amount:
    """How much is to be read; raises where it is not there."""
    there, more = held(bounds), warmup.records or 0
    asked = load.records
    if there == 0:
        raise TooFewRecordsError(
            f"topic {topic.name} is empty: fill it first (qanat bench produce --topic {topic.name} --records 1000000)"
        )
    if asked is not None and there < asked + more:
        warming = f" and --warmup {more:,}" if more else ""
        raise TooFewRecordsError(
            f"topic {topic.name} holds {there:,} records, --records {asked:,}{warming} asks for more: read fewer, "
            f"or write more first (qanat bench produce --topic {topic.name} --records {asked + more - there})"
        )
    if group is None and load.clients > topic.partitions:
        raise WrongArgumentError(
            f"--clients {load.clients}: topic {topic.name} has {topic.partitions} partitions, "
            "and each is read by one client"
        )
    if asked is None and load.seconds is None and group is not None:
        asked = there - more
    return Amount(records=asked, seconds=load.seconds)


def _readers(
    topic: TopicInUse,
    settings: dict[str, str],
    bounds: Bounds,
    wanted: Amount,
    warmup: Amount,
    clients: int,
    patience_s: float,
) -> list[ConsumeTask]:
    """Partitions in turn, and of the records that are wanted as many as each has."""
    parts = [dict(list(bounds.items())[number::clients]) for number in range(clients)]
    parts = [part for part in parts if held(part)]
    warmups = warmup.shared(len(parts))
    left = None if wanted.records is None else wanted.records + (warmup.records or 0)
    tasks: list[ConsumeTask] = []
    # Whoever has least comes first, so that the others can take what it lacks.
    for number, part in enumerate(sorted(parts, key=held)):
        own = wanted
        if left is not None:
            share = min(held(part), -(-left // (len(parts) - number)))
            left -= share
            own = Amount(records=max(0, share - (warmups[number].records or 0)))
        offsets = {partition: first for partition, (first, end) in part.items() if end > first}
        tasks.append(ConsumeTask(topic.name, settings, own, warmups[number], offsets=offsets, patience_s=patience_s))
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
    said = {
        "topic": "temporary" if topic.is_temporary else topic.name,
        "partitions": topic.partitions,
        "clients": load.clients,
        "group": group,
    }
    complained = complaints(found.complaint, figures["errors"])
    if not complained and not run.was_interrupted and wanted.records is not None and found.records < wanted.records:
        complained = [f"only {found.records:,} of {wanted.records:,} records came: the topic holds no more"]
    return Result(
        "consume",
        figures,
        [Sheet(("consume", ""), [*rows, *error_rows(figures), *used_rows(run.used)])],
        rate_plot("Records read a second", {"records/s": found.timeline}),
        settings_of(clients, said),
        complaints=complained,
        was_interrupted=run.was_interrupted,
    )
