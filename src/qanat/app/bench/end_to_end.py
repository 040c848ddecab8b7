"""`qanat bench end-to-end`: latency from the time at which a record should be sent until it is read."""

from __future__ import annotations

import secrets
from typing import Annotated

from cyclopts import Parameter

from qanat.app.bench.clients.broker_usage import broker_pids
from qanat.app.bench.clients.librdkafka_properties import Clients, check_properties, clients_of, consumer_properties
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
from qanat.app.bench.clients.temporary_topic import TopicInUse, bounds_of, fresh_name, topic_in_use
from qanat.app.bench.clients.worker_messages import STAMP_BYTES, Amount, ConsumeTask, Task
from qanat.app.bench.clients.worker_pool import Run, measured
from qanat.app.bench.produce import complaints, writer_properties, writers, writing_settings
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.client.target import run as run_on

_WARMUP = "1s"


def end_to_end(
    *,
    load: Load = DEFAULT_LOAD,
    place: Place = DEFAULT_PLACE,
    writing: Writing = DEFAULT_WRITING,
    rate: Annotated[float, Parameter(name=["--rate", "--throughput"])] = 1000,
    output: Report = DEFAULT_REPORT,
    target: Target = HERE,
) -> int:
    """Measure how long records take from producer to consumer at a fixed rate.

    Record n should be sent n/rate seconds after the start, and its latency counts from there: it includes every delay
    of producer, broker and consumer. One second of warm-up comes first, unless --warmup says otherwise.

        qanat bench end-to-end --rate 1000 --seconds 30
        qanat bench end-to-end -b kafka:9092 --rate 50000 --linger-ms 1 --html latency.html

    Parameters
    ----------
    rate:
        Records a second of all clients together.
    """
    amount, warmup, pace = load.amount(), load.warmup_amount(_WARMUP), rate_of(rate)
    if not pace:
        raise WrongArgumentError("end-to-end needs a --rate: without a limit, records only wait for one another")
    place.check()
    writing.check(STAMP_BYTES)
    output.check()
    clients = clients_of(target)
    settings = writer_properties(clients, writing)
    reading = consumer_properties(clients, fresh_name())
    check_properties(reading, "consumer")
    stamp = secrets.token_hex(8)
    with topic_in_use(clients.target, place.topic, place.count, place.copies) as topic:
        bounds = run_on(clients.target, lambda cluster: bounds_of(cluster, topic.name))
        readers = min(load.clients, topic.partitions)
        ends = [(partition, end) for partition, (_, end) in bounds.items()]
        tasks: list[Task] = [
            *writers(topic.name, settings, writing, amount, warmup, pace, load.clients, clients.timeout_s, stamp),
            *(
                ConsumeTask(
                    topic.name,
                    reading,
                    Amount(),
                    Amount(records=0),
                    offsets=dict(ends[number::readers]),
                    is_live=True,
                    stamp=stamp,
                    timeout_s=clients.timeout_s,
                )
                for number in range(readers)
            ),
        ]
        with load_progress(f"through {topic.name}", amount.records, amount.seconds) as report_progress:
            run = measured(tasks, broker_pids(topic.brokers), report_progress)
    return show(_result(run, topic, clients, load, writing, pace), output)


def _result(run: Run, topic: TopicInUse, clients: Clients, load: Load, writing: Writing, rate: float) -> Result:
    written, read = run.written, run.read
    end, acknowledged = read.latencies(), written.latencies()
    sent = throughput(written)
    figures = sent | {
        "received": read.records,
        "latency_ms": end.summary(),
        "acknowledged_ms": acknowledged.summary(),
        "rate": rate,
        "errors": sent["errors"] + read.errors.total(),
        "error_reasons": dict(written.errors + read.errors),
        **used_figures(run.used, written.records),
        "histogram": end.encoded(),
        "acknowledged_histogram": acknowledged.encoded(),
    }
    rows = [
        *throughput_rows(sent),
        ("received", f"{read.records:,}"),
        *latency_rows("end to end", figures["latency_ms"]),
        *latency_rows("acknowledged", figures["acknowledged_ms"]),
        *error_rows(figures),
        *used_rows(run.used),
    ]
    complained = complaints(written.complaint or read.complaint, figures["errors"])
    if not complained and not run.was_interrupted and read.records < written.records:
        complained = [f"{written.records - read.records:,} of {written.records:,} records were not received in time"]
    return Result(
        "end-to-end",
        figures,
        [Sheet(("end to end", ""), rows)],
        [
            *latency_plot("Latency by percentile", {"end to end": end, "acknowledged": acknowledged}),
            *rate_plot("Records a second", {"sent": written.timeline, "received": read.timeline}),
        ],
        settings_of(clients, writing_settings(topic, load, writing, rate)),
        notes=lag_notes(written, rate),
        complaints=complained,
        was_interrupted=run.was_interrupted,
    )
