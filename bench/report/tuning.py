"""A guide to tuning: the trade-offs of settings, with figures of the run where there are any."""

from __future__ import annotations

from collections.abc import Mapping

from bench.report.part_results import PartResult
from qanat.app.bench.figures import Row
from qanat.app.bench.report import number

_PRODUCERS = (
    (
        "`linger.ms`, `batch.num.messages` (librdkafka), `batch.size` (Java)",
        "larger batches: the broker's work is per request, not per message; a message waits up to `linger.ms`",
        (("batches of 100 B", "produce-100", ""), ("one message a request", "single", "")),
    ),
    (
        "`compression.type` (lz4, zstd)",
        "fewer bytes on network and disk for CPU time of clients; the broker does not decompress batches",
        (("1 KB plain", "produce-1k", ""), ("lz4", "produce-1k-lz4", ""), ("zstd", "produce-1k-zstd", "")),
    ),
    (
        "`acks`",
        "`all` waits for every in-sync replica and for the disk; `1` for the leader; `0` for no response",
        (),
    ),
    (
        "`max.in.flight.requests.per.connection`",
        "waiting for each response costs a round trip per message",
        (("pipelined", "single", ""), ("64 in flight", "single-64", ""), ("one at a time, p50", "sync", "p50")),
    ),
)
_CONSUMERS = (
    (
        "`fetch.min.bytes`, `fetch.wait.max.ms`",
        "fewer, larger responses for latency; at the default of one byte a record is sent as it arrives",
        (("p50 at 1,000/s", "end-to-end", "p50"), ("p50 at 50,000/s", "end-to-end-50k", "p50")),
    ),
    (
        "`fetch.message.max.bytes`, `max.partition.fetch.bytes`",
        "more bytes a response: less CPU time per GB for memory of the client",
        (("CPU per GB at 1 KB", "consume-1k", "per GB out"), ("at 10 KB", "consume-10k", "per GB out")),
    ),
    (
        "`client.rack` with `replica.selector.class`",
        "fetches from a follower in the same rack instead of the leader",
        (),
    ),
)
_TOPICS = (
    (
        "`flush.messages`",
        "1 (Qanat's default): acknowledged is on disk; maximum (Kafka's default): a power cut loses unflushed records",
        (
            ("100 B without", "produce-100", ""),
            ("with", "fsync-100", ""),
            ("sync p50 without", "sync", "p50"),
            ("with", "fsync-sync", "p50"),
        ),
    ),
    (
        "partitions",
        "more consumers of a group in parallel; each partition costs memory, files, and smaller batches",
        (("1", "partitions-1", ""), ("100", "partitions-100", ""), ("5,000", "partitions-5000", "")),
    ),
    (
        "`replication.factor`, `min.insync.replicas`",
        "records survive the loss of a broker, for copies over the network",
        (),
    ),
    (
        "`segment.bytes`",
        "larger: fewer files; smaller: old records are deleted sooner, less to check after a crash",
        (),
    ),
)
_BROKER = (
    (
        "connections",
        "one event loop serves all: many connections cost memory, and each request its turn",
        (("1 client", "clients-1", ""), ("100", "clients-100", ""), ("1,000", "clients-1000", "")),
    ),
    ("`data.dir` on a disk of its own", "a synchronous producer waits for fdatasync", ()),
    ("`broker.session.timeout.ms`", "how soon a silent broker is replaced, and how soon a slow one is", ()),
    (
        "`QANAT_PURE` unset (a C compiler at installation)",
        "the per-record core is compiled: record batches by the row",
        (),
    ),
)
_GROUPS = {"Producers": _PRODUCERS, "Consumers": _CONSUMERS, "Topics": _TOPICS, "Broker": _BROKER}


def guide(kept: Mapping[str, PartResult]) -> str:
    """The whole page."""
    lines = [
        "# Settings and their figures",
        "",
        "The trade-off of each setting, with figures of [the report](report.md) where there are any (one broker).",
        "[Tuning](../operating/tuning.md) says which of them to try first. `make performance` writes this page.",
    ]
    for title, settings in _GROUPS.items():
        lines += ["", f"## {title}", "", "| setting | trades | in this run |", "| --- | --- | --- |"]
        for setting, trade, figures in settings:
            lines.append(f"| {setting} | {trade} | {_figures_of(kept, figures) or '–'} |")
    return "\n".join(lines) + "\n"


def _figures_of(kept: Mapping[str, PartResult], figures: tuple[tuple[str, str, str], ...]) -> str:
    broker = kept.get("broker")
    rows = [(label, broker.row(figure, ending)) for label, figure, ending in figures] if broker else []
    return "; ".join(f"{label}: {_figure(row)}" for label, row in rows if row is not None)


def _figure(row: Row) -> str:
    return f"{number(row.ours)} {row.unit}"
