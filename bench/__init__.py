"""Benchmarks: Qanat compared with Apache Kafka, with the same client, on the same machine, in the same run.

    python -m bench                      everything; make bench-kafka does the same
    python -m bench --quick              at most five minutes
    python -m bench --only sync,start    some workloads

- `__main__`        the command line
- `workloads`       the workloads: settings of client and topic, requirements and goals
- `rounds`          workloads on both sides in turns, and the resulting rows
- `sides`           one side: creates, fills and removes its topics, and runs a workload once
- `cold`            files dropped from the page cache
- `frames`          the requests that many clients send
- `embedded`        a broker inside a test, from the import of the test kit to the first answer
- `memory`          uses free memory once before a measurement
- `processes`       a process's CPU time and memory, from /proc
- `clients`         the driver of both sides: `driver.c` over librdkafka with its parts (`latency.c`, `payloads.c`,
                    `crowd.c`, `readers.c`, `channel.c`), or `driver_python` (`payloads_python`, `crowd_python`) where
                    that cannot be compiled
- `bare`            the substitute for Kafka where its jars are not available: a loop from a socket to a file
- `page`            the result as a page
- `three`           three brokers on each side, which `clusters` starts (make bench-three)
- `protected`       TLS, SASL and ACLs on both sides; many rules; guessed passwords (make bench-protected)

On Qanat alone, each a command of its own: `stalls` measures how long one request stalls the event loop,
`connections` the cost of an idle connection (docs/performance-holds.md), `rebalance` how long a group of a hundred
members needs to settle (with `group_members`), `transactions` the cost of commits, `shares` the cost of acknowledging
every record (with `share_client`); figures of the last three are in docs/performance-groups.md.
`peers` compares Qanat with systems that do not speak Kafka.
`http` compares the HTTP server with a bare handler, `failover` measures the loss of one of three brokers, and the cost
of many partitions.
`console` measures the web console with very many topics and groups (make bench-console).
`report` runs the parts of docs/performance/report.md one after the other and writes that page (make performance).
`request` measures one small request inside the broker, without a client; `request_pairs` compares two trees by it,
alternating. `regression` checks in seconds whether a path has become twice as slow (make guard); every test run checks
for three times as slow.

Servers are started by `tools.servers`.

Rule 1: both sides get the same client, client settings, topic settings and processors.
Rule 2: they take turns within each round; the ratio is taken within the round.
Rule 3: broker CPU and memory come from the kernel, from the go signal to the warmed-up client on.

`qanat.app.bench` judges and shows figures, as for `qanat bench log`.
"""
