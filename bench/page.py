"""The comparison of one broker with Kafka as a page, for `--markdown FILE`."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.app.bench.report import Result, cells

HEADINGS = ("workload", "what", "Qanat", "compared with", "ratio", "required", "verdict", "spread of the ratio")

_HEAD = """\
# Performance of one broker

One node of Qanat compared with one node of Apache Kafka: the same client, the same machine, the same run. A command
writes this page; repeat it on your machine:

```
make bench-kafka ARGS="--markdown broker.md"
```

`--quick` measures fewer messages of some workloads in at most five minutes, `--only sync,start` some workloads,
`--json FILE` is for programs, `--check` exits with 1 for a missed ratio. Maven fetches Kafka's jars; without them Qanat
is compared with a bare loop from a socket to a file, and nothing is required. Event-loop stalls by large requests and
the cost of idle connections are in Qanat's `docs/performance-holds.md`.
"""

_HOW = """\
## How it is measured

- Each server is a process of its own on loopback, started as its users start it (`qanat start`; Kafka as broker and
  controller in one, with the heap and the collector of its start script). Both servers and the client use the same
  processors.
- The same client program over librdkafka loads both, with the same settings, on topics of one partition (unless noted)
  with the same settings. It connects and warms up before the start signal. Every round has a new topic, except that
  consumers read one that was filled before.
- The two take turns within each round; the ratio is taken within the round. Figures are medians over the rounds, after
  one round that is not counted; *spread* is the lowest and the highest ratio.
- As much free memory as a run fills is used just before it. In a virtual machine the first write to a page makes the
  host find that page, and free pages may go back to the host: 1.1 GB of page cache took 1.27 s of processor time on
  memory that the host had to find, 0.22 s on memory just used, on both sides and in no steady way.
- CPU time is the kernel's figure of the server's process between the start signal and the last acknowledgement.
- **produce** and **consume**: batches of up to 10,000 messages, `acks=all`. Values are one repeated letter, except with
  lz4 and zstd: there they are lines of metrics (time, host, name, value) made from a counter, 10,000 different ones in
  turn, which compress to about a fifth; the client compresses. Bytes *out* are bytes before compression.
  A consumer's queue has room for two million messages: where librdkafka's (100,000) is full, it fetches nothing for
  up to a second, which would hide the faster broker. The driver uses jemalloc where there is one
  (Debian: libjemalloc2): in the C library's malloc, librdkafka's threads wait for each other.
- **single**: `batch.num.messages=1`, up to 1,000 requests in flight; **single-64**: up to 64, on one connection;
  **single-64-clients**: one on each of 64 connections. **sync**: the next message is sent when the last is
  acknowledged.
- **end-to-end**: from when a message was due to after the call that receives it, producer and consumer in one process.
  A delayed sender sends late, and that counts as latency: there is no coordinated omission. The first tenth is not
  counted.
- **catch-up**: a topic is filled, written to disk and dropped from the page cache (which is checked); then it is read
  to the end while a producer adds 5,000 messages/s. The acknowledgement's latency counts from when a message was due.
- **partitions**: one producer, its messages to all partitions in turn; the topics are created once, all at once, on
  servers of their own. librdkafka sends a request for each partition, so that more partitions are more, smaller
  requests: on both sides alike. **clients**: connections, each with five requests of 100 messages unanswered, from one
  thread that sends one prepared request over and over; a thousand handles of librdkafka would be thousands of threads.
  *Keeps of the throughput of 1*: within the round. The requirement is to keep as large a share as Kafka.
- Without fsync both leave flushing to the kernel (`flush.messages` at its maximum, Kafka's default). With fsync an
  acknowledged record is on disk (`flush.messages=1`, Qanat's default). Segments are of 1 GiB on both sides, Kafka's
  default and eight times Qanat's: a full one is flushed.
- **start**: from before the process is created until ApiVersions is answered; Kafka's folder is formatted before.
  **embedded**: a fresh interpreter, from before the import of `qanat.testing` until ApiVersions is answered.
  **memory**: *idle* is resident one second after that, *peak* the most that was resident while all workloads (or
  those with many partitions) ran. Qanat maps the segments that it sends from, so that its part of the kernel's page
  cache counts as resident, and the same pages of Kafka's do not: the judged figure is memory without mapped files,
  sampled ten times a second.
- A *requirement* must hold (`--check`); a *goal* is only shown. Without a requirement, the goal is to be as good as
  Kafka. A ratio is *inconclusive* where the median of the rounds' ratios and the ratio of the two medians fall on
  different sides of the bound. The notes name a workload that fails on a side, and those without time on a busy machine
  (`--minutes`); the run continues.
"""


def as_markdown(result: Result) -> str:
    """The whole page."""
    sections = [
        _HEAD,
        "## Figures\n\n" + table(HEADINGS, [cells(row) for row in result.rows]),
        _HOW,
        "## Machine, versions, settings\n\n"
        + table(("what", "value"), [*result.machine.items(), *result.settings.items()]),
    ]
    if result.notes:
        sections.insert(2, "## Notes\n\n" + "\n".join(f"- {note}" for note in result.notes) + "\n")
    return "\n".join(sections)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
