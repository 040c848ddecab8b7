"""Spark benchmarks: `format("qanat")` on Qanat, Spark's own connector on Apache Kafka, and a source in memory.

    python -m bench.spark                     10,000,000 records of 100 B
    python -m bench.spark --quick             300,000, in about a minute
    python -m bench.spark --backlog-gb 10     also how large a worker grows over a backlog

- `engine`    a program that runs workloads in one environment of Spark on command, and prints the seconds
- `ceiling`   a data source and a sink in memory: the upper bound of Spark's Python interface
- `sides`     a session and a broker for each side, started once and waiting for their turn
- `backlog`, `memory`   how large Python workers grow while a backlog is read
- `__main__`  the turns, and the table

Everything runs on the same machine and cores, brokers included. The sides take turns within each round, after one round
that warms up; the ratio is taken within the round. Where the connector or Kafka is not available, the report says so
and compares with the ceiling. `bench.report` puts the figures into docs/performance/report.md.
"""
