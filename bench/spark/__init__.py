"""Spark beside Spark: `format("qanat")` on Qanat, Spark's own connector on Apache Kafka, and a source in memory.

    python -m bench.spark                     10,000,000 records of 100 B
    python -m bench.spark --records 1000000 --backlog-gb 1

- `engine`    a program that runs the workloads in one environment of Spark and prints the seconds
- `ceiling`   a data source and a sink in memory: what Spark's Python interface allows at most
- `memory`    how large Python workers grow while a backlog is read
- `__main__`  brokers, engines, and the table

Everything runs on the same machine and cores, broker included. Each workload is run once to warm up and then three
times; the median counts. Where the connector or Kafka cannot be had, the report says so and stands beside the ceiling.
"""
