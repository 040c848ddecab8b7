"""Qanat beside Apache Kafka: the same client, the same machine, the same run.

    python -m bench                      everything; make bench-kafka does the same
    python -m bench --quick              at most five minutes
    python -m bench --only sync,start    some of it

- `__main__`        the command line
- `workloads`       what is measured, with which settings of client and topic, what is required and aimed at
- `rounds`          workloads on both sides in turns, and the rows that come out of it
- `sides`           one side: its topics made, filled and removed, one run taken of a workload
- `cold`            files dropped from the page cache
- `frames`          the request that many clients send
- `servers`         Qanat and Kafka, each in a process of its own on loopback
- `embedded`        a broker inside a test, from the import of the test kit to the first answer
- `memory`          free memory is used once before anything is measured
- `processes`       a process's CPU time and memory, from /proc
- `clients`         the program that drives both: `driver.c` over librdkafka with its parts (`latency.c`, `payloads.c`,
                    `crowd.c`), or `driver_python` (`payloads_python`, `crowd_python`) where that cannot be compiled
- `bare`            what stands in for Kafka where its jars cannot be had: a loop from a socket to a file
- `page`            the same as a page
- `three`           the same with three brokers on each side, which `clusters` starts (make bench-three)

On Qanat alone, each a command of its own: `holds` measures how long one request keeps others waiting,
`connections` what an idle connection costs (docs/performance-holds.md), `rebalance` how long a group of a hundred
members needs to settle (with `group_members`), `transactions` what commits cost, `shares` what acknowledging every
record costs (with `share_client`); figures of the last three are in docs/performance-groups.md.
`peers` measures Qanat beside systems that do not speak Kafka.
`http` measures the HTTP door beside a bare handler, `failover` what it costs when a broker of three goes, and what many
partitions cost.
`report` runs the parts of docs/performance.md one after the other and writes that page (make performance).
- `request`         one small request inside the broker, without a client: where its CPU time goes
- `guard`           whether a path has become twice as slow, in seconds (make guard); in every test run, three times

Rule 1: both sides get the same client, client settings, topic settings and processors.
Rule 2: they take turns within each round; the ratio is taken within the round.
Rule 3: broker CPU and memory come from the kernel, from the moment the warmed-up client is told to go.

How figures are judged and shown is `qanat.app.bench`, as for `qanat bench log`.
"""
