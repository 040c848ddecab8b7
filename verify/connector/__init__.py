"""Comparison with Spark's own Kafka connector: the same data and options through its jar and `format("qanat")`.

    python -m verify.connector          (make spark-connector)

- `data`      topics with awkward records, filled alike on both brokers
- `cases`     the cases: options of reads, and rows to write, valid and invalid
- `spark_job` the Spark program that runs all cases, in either environment; imports only the data source of Qanat

Four answers are compared: the connector on Apache Kafka, which is right by definition; the connector on Qanat; the data
source on Qanat; the data source on Kafka. Each reads and writes, the jar also in a stream. Where the connector or Kafka
is not available, the comparison says so and leaves it out. `tools.spark_connector` fetches the connector.
"""
