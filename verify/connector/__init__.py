"""Spark's own Kafka connector as judge: the same data and options, asked of its jar and of `format("qanat")`.

    python -m verify.connector          (make spark-connector)

- `fetching`  the connector: an environment with PySpark 4.0 and four jars, in `.cache/`
- `cases`     what is asked: options of reads, and rows to write, good and bad
- `asking`    a program that asks, in either environment; imports nothing of ours but the data source
- `data`      topics with everything that is awkward, filled alike on both brokers

Four answers are compared: the connector on Apache Kafka, which is right by definition; the connector on Qanat; the data
source on Qanat; the data source on Kafka. Each writes as well as it reads, the jar also in a stream. Where connector or
Kafka cannot be had, that is said and left out.
"""
