"""The prose of the pages. It holds no measured numbers: those come from the run."""

from __future__ import annotations

USERS_HEAD = """\
# Performance

Qanat compared with Apache Kafka and others, on one machine, with the same clients and settings on both sides. This page
is the summary for users; [the full report](performance/report.md) holds every figure, its spread, and how it was
measured. Repeat both on your machine, in an hour at most:

```
make performance
```
"""

USERS_LINES = """\
## In short

Each ratio is Qanat's figure divided by Apache Kafka's. Rates should be high, everything else low.
"""

USERS_BEHIND = """\
## Where others are better

The largest differences. [Behind](performance/report.md#behind) lists all of them, each with its reason and a plan.
"""

USERS_NEXT = """\
## What to read next

| to | read |
| --- | --- |
| make your own cluster faster | [tuning](operating/tuning.md), [settings and their figures](performance/tuning.md) |
| measure a cluster, ours or any other | [`qanat bench`](operating/bench.md) |
| see every figure and how it was measured | [full report](performance/report.md), [as JSON](performance/report.json) |
| know the log without a broker | [the log](performance-log.md) |
| know stalls by large requests, and idle connections | [large requests](performance-holds.md) |
| know how fast records are pushed | [push](performance-push.md) |
| know groups, transactions and queues | [groups](performance-groups.md) |
"""

HEAD = """\
# The full performance report

Qanat compared with its alternatives, on one machine, in one run. [The summary](../performance.md) is for users, this
page for those who check it. `make performance` writes both, their plots and [the figures as JSON](report.json).

It takes an hour at most, `make performance ARGS=--quick` twelve minutes (into `build/`). What is not available, such as
Apache Kafka without Maven and Java, is named below, and the rest is measured. `ARGS="--only broker,spark"` measures
some parts, `ARGS="--reuse build/performance-run"` composes the page again from the last results, `--check` exits with 1
for a missed floor, or for a figure behind another system without a plan. `ARGS=--help` lists all options.
"""

HEADLINE = """\
## Compared with Apache Kafka

A ratio is Qanat's figure divided by Apache Kafka's: the median of the rounds' ratios. The *floor* must hold, the *goal*
is the aim. Rates should be high, everything else low. A line is *inconclusive* where the median ratio and the ratio of
the two printed figures fall on different sides of the bound: the rounds differ too much for a verdict.
"""

PROMISES = """\
## Promised figures

The projects that Qanat grew from promise figures without a measurement. Here they are with measured ones: single
broker, 100-byte messages, client and broker on the same processors.
"""

UNFLUSHED = """\
## Without fsync

Every system leaves flushing to the kernel: Kafka's default, not Qanat's.
"""

FLUSHED = """\
## With fsync per acknowledgement

In every system an acknowledged message is on disk: Qanat's default.
"""

PROTECTED = """\
## Protected

Both sides have TLS (the same certificate, TLS 1.3), SASL PLAIN and their authorizers with the same rules; the client is
no super user, so that rules decide about every request. *rules* compares Qanat with 10,000 rules, and without TLS, with
Qanat without an authorizer. *guesses* is Qanat alone: 1,000 wrong passwords a second from one address, beside
synchronous writes of another one.
"""

PEERS = """\
The other systems do not speak Kafka: each has its own Python client, which bounds the rates. The server's CPU time per
message compares servers. A cell holds the median, in brackets the lowest and the highest value, and Qanat's figure
divided by the other system's.
"""

BEHIND = """\
## Behind

Every figure of this page in which another system is better, or Qanat without an attacker, the largest difference first.
Reasons and plans are written by hand in `bench/report/plans.yaml`. Profiles are [below](#where-the-time-goes).
"""

TIME = """\
## Where the time goes

A separate broker under the loads of this page, its stack sampled whenever it has used a few milliseconds of CPU time
(`python -m bench.report.profiling`). Time inside C, such as system calls, checksums and compiled modules, counts for
the Python function that called it; *below* is the same time by library, from `perf`, which sees no Python functions.
[The hot path](../internals/hot-path.md) describes the requests in detail.
"""

COSTS = """\
### A message and a byte

A straight line through the broker's CPU time per message at the sizes of this run, with the least relative error:
the cost of an empty message, and of each KiB. Messages come in librdkafka's batches; the line of single-record requests
shows the cost of a request.
"""

HOW = """\
## How it is measured

- Servers are processes of their own on loopback, started as their users start them; servers and clients share the same
  processors.
- The disk's write-back is complete before each part begins.
- Sides take turns within each round; the ratio is taken within the round. Figures are medians over five rounds or
  more, after one round that warms up; *spread* is the lowest and the highest judged value.
- **One broker, three brokers**: one client program over librdkafka runs on both sides, with the same settings, on
  topics with the same settings; every round has a new topic, except that consumers read one that was filled before.
  As much free memory as a run fills is used just before it: in a virtual machine the first write to a page makes the
  host find it.
- CPU time and memory are the kernel's figures of the server's process, from the start signal to the warmed-up client
  on. **start** runs from before the process is created until ApiVersions is answered.
- **produce** and **consume**: batches of up to 10,000 messages, `acks=all`; a consumer's queue has room for two
  million (librdkafka fetches nothing for up to a second where its own is full), and the driver uses jemalloc where
  there is one: in the C library's malloc, librdkafka's threads wait for each other. **single**: one message a request,
  up to 1,000 in flight; **single-64**: up to 64. **sync**: the next message is sent when the last is acknowledged.
  **end-to-end**: from when a message was due to its arrival, so that a delayed sender does not hide latency.
  **catch-up**: a topic that is not in memory is read to its end with a concurrent producer. **partitions**,
  **clients**: the same with more and more of them, and the share that is left of the throughput of one, at most 1: a
  server that one client cannot saturate gains with several, and that does not count as scaling better.
- **Protected**: as one broker, over SASL_SSL. A hundred clients are a hundred connections of one driver, with five
  requests of 100 × 100 B or 50 × 1 KB unanswered, or one fetch of up to 1 MiB: each consumer reads the same topic.
  Guesses are connections of their own on a listener without TLS, where a guess costs the broker what the guess costs
  and not a handshake; the *p99* meanwhile is compared, by turns, with the slowest run in which the same guesser guesses
  at a server beside the broker that closes each connection at once: the guesser takes a processor from everyone here.
- **Failover**: one librdkafka producer with its defaults and `enable.idempotence` writes a message every 2 ms; the
  *gap* is the longest time between two acknowledgements of a partition, from the last one before the loss of its
  leader. Qanat's and Kafka's clusters are measured one after the other, with each side's own defaults: Qanat syncs
  before it acknowledges, Kafka does not. *Memory* is the largest broker's; *CPU when idle* the busiest one's.
- **Other systems**: a stream of one partition and one replica each; publishes are pipelined as far as each client
  allows. A system that cannot sync before it acknowledges is not in the table with fsync.
- **Spark**: `format("qanat")` compared with Spark's own connector on Apache Kafka and with a source in memory, the
  upper bound of Spark's Python interface. Each is a session of its own that waits for its turn. A stream's rate is
  that of its triggers; the start of a query is a separate figure.
"""

OTHERS = """\
## Measured elsewhere

| what | page or command |
| --- | --- |
| the log without a broker, and bare system calls | [performance of the log](../performance-log.md), `qanat bench log` |
| event-loop stalls by large requests; idle connections | [large requests](../performance-holds.md) |
| rebalances of a hundred members; the cost of transactions and queues | [groups and others](../performance-groups.md) |
| the HTTP server compared with a bare handler | `make bench-http` |
| any cluster of yours | [`qanat bench`](../operating/bench.md) |
"""
