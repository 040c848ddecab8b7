"""What the page says besides figures. No numbers that were measured: those come from the run."""

from __future__ import annotations

HEAD = """\
# Performance

Qanat beside what you would use instead, on one machine, in one run. This page, its plots and [its figures for
programs](performance/report.json) are written by one command; repeat it on your machine:

```
make performance
```

It takes an hour at most, `make performance ARGS=--quick` five minutes (into `build/`). What cannot be had, such as
Apache Kafka without Maven and Java, is named below, and the rest is measured. `ARGS="--only broker,spark"` measures
some parts, `ARGS="--reuse build/performance-run"` composes the page again from what was kept, `--check` makes a
missed floor, or being behind without a plan, an exit code. `ARGS=--help` tells the rest.
"""

HEADLINE = """\
## Beside Apache Kafka

Ratios are Qanat's figure to Apache Kafka's, the median over the rounds of what it was within each. *Floor* must hold,
*goal* is aimed at. Rates should be high, everything else low.
"""

PROMISES = """\
## What was promised

The projects that Qanat grew from promise figures without a measurement. Here they are beside one, single broker,
100-byte messages, client and broker on the same processors.
"""

UNFLUSHED = """\
## Without fsync, everywhere

Writing is left to the kernel on every side: Kafka's default, not Qanat's.
"""

FLUSHED = """\
## With fsync per acknowledgement, everywhere

An acknowledged message is on the disk, on every side: Qanat's default.
"""

PEERS = """\
The other systems do not speak Kafka: each is driven by its own Python client, and rates are bounded by that. What
compares servers is the server's CPU time per message. A cell is the median, in brackets the lowest and the highest,
and how many times the other's figure Qanat's is.
"""

BEHIND = """\
## Behind

Every figure in which somebody else is better, the furthest first: taken from the tables of this page by the command;
reasons and plans are kept by hand in `bench/report/plans.yaml`. Profiles are [below](#where-the-time-goes).
"""

TIME = """\
## Where the time goes

A broker of its own under the loads of this page, its stack noted whenever it has used a few milliseconds of CPU time
(`python -m bench.report.profiling`). Time inside C, such as system calls, checksums and compiled modules, counts for
the Python function that called it; *below* is the same time by whose code ran, from `perf`, which sees no Python
functions. How to go on from here is [another page](internals/hot-path.md).
"""

COSTS = """\
### A message and a byte

A straight line through the broker's CPU time per message at the sizes of this run, with the least relative error:
what remains for a message of no bytes, and what each KiB adds. Messages come in batches, as librdkafka makes them;
what a request of its own costs is the line of single-record requests.
"""

HOW = """\
## How it is measured

- Servers are processes of their own on loopback, started as their users start them; the same processors for all of
  them and for the clients.
- What is still to be written to the disk is written before each part begins.
- Sides take turns within each round; the ratio is taken within the round. Figures are medians over five rounds or
  more, after one round that warms up; *spread* is the lowest and the highest of what is judged.
- **One broker, three brokers**: one program over librdkafka drives both, with the same settings, on topics with the
  same settings; every round has a new topic, except that consumers read one that was filled before. As much free
  memory as a run fills is used just before it: in a virtual machine the first write to a page makes the host find it.
- CPU time and memory are what the kernel says of the server's process, from the moment the warmed-up client is told
  to go. **start** runs from before the process is made until ApiVersions is answered.
- **produce** and **consume**: batches of up to 10,000 messages, `acks=all`; a consumer's queue has room for two
  million (librdkafka asks for nothing for up to a second where its own is full), and the driver uses jemalloc where
  there is one: in the C library's malloc, librdkafka's threads wait for each other. **single**: one message a request,
  up to 1,000 in flight; **single-64**: up to 64. **sync**: the next message is sent when the last is acknowledged.
  **end-to-end**: from the moment at which a message was meant to be sent to its arrival, so that who is held up does
  not hide it. **catch-up**: a topic that is not in memory is read to its end beside a producer. **partitions**,
  **clients**: the same with more and more of them, and what is left of the throughput of one, all at most: a server
  that one client cannot keep busy has more with several, and is not the flatter for it.
- **Failover**: one librdkafka producer with its defaults and `enable.idempotence` writes a message every 2 ms; the
  *gap* is the longest time between two acknowledgements of a partition, from the last one before its leader went.
  Qanat's and Kafka's clusters are measured one after the other, with each side's own defaults: Qanat syncs before it
  acknowledges, Kafka does not. *Memory* is the largest broker's; *CPU when idle* the busiest one's.
- **Other systems**: a stream of one partition and one replica each; publishes are pipelined as far as each client
  allows. A system that cannot sync before it acknowledges has no place in the table with fsync.
- **Spark**: `format("qanat")` beside Spark's own connector on Apache Kafka and beside a source in memory, which is
  what Spark's Python interface allows at most. Each is a session of its own that waits for its turn. A stream's rate
  is that of its triggers; how long a query takes to start, once in its life, is a figure of its own.
"""

OTHERS = """\
## Measured elsewhere

| what | where, or with which command |
| --- | --- |
| the log without a broker, beside bare system calls | [performance of the log](performance-log.md), `qanat bench log` |
| how long one large request keeps others waiting; idle connections | [large requests](performance-holds.md) |
| rebalances of a hundred members; what transactions and queues cost | [groups and others](performance-groups.md) |
| the HTTP door beside a bare handler | `make bench-http` |
| any cluster of yours | [`qanat bench`](operating/bench.md) |
"""
