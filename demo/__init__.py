"""The demonstration (`make demo`): a broker, the pipeline on Spark and the partition log, on this machine's disk.

Each chapter measures, checks its claims, and fails the run where a claim does not hold.

The pipeline:

- `pipeline`      a fleet's measurements through a broker and the pipeline `metrics`
- `fleet`         those measurements, late, doubled and broken ones among them, and the expected results
- `producing`     how they get into the broker: over HTTP and through a Kafka client
- `rollups`       the results, read without Spark and compared with the expected ones
- `spark_chapter` what the terminal shows of it
- `report`        the HTML page and the plot

The queue:

- `broker`        a broker process, used through librdkafka, killed and restarted
- `chapters`      the log used directly: durable appends, reads as columns, a crash and its recovery, compaction
- `metrics`       made-up but lifelike measurements, and their totals to compare with
- `edge`          five prices from a registry to a consumer application
- `console`       the web console of the run: kept as a bundle, or live
- `writer`        the process that is killed in the crash chapter

`claims` holds the checks' exception; `python -m demo` runs all. Rule: the demonstration imports only `qanat`.
"""
