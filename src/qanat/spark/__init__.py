"""Spark: the data source `qanat`, its sinks and the pipelines.

- `session`        a Spark session that works at once; start here
- `java`           the Java that Spark starts
- `worker_python`  the Python that Spark starts
- `shipping`       what executors of a cluster need, as one archive
- `source`         what Spark finds behind `format("qanat")`, and `register`
- `plain_faults`   what goes wrong in Spark's processes, told as one sentence
- `given`          options as they were given, and complaints about them (pure)
- `foreign`        what else Spark's connector and Java's clients can be told, accepted or refused (pure)
- `options`        what `.option(...)` may say: the names of Spark's Kafka connector, and a few more (pure)
- `value_options`  what they say about values with a schema
- `offsets`        positions in topics, limits and splits (pure)
- `narrowing`      what filters leave of a batch read (pure)
- `loss`           records that are no longer there, said exactly
- `ddl`            columns as DDL, looked through (pure)
- `schemas`        the columns
- `lookups`        what the driver asks of the brokers
- `batch_reader`   a batch read on the driver
- `trigger_bytes`  how far a micro-batch goes that may have so many bytes
- `stream_reader`  a streaming read on the driver
- `kept_memory`    memory that stays with one of Spark's Python processes
- `reading`        an executor's part of either: batches fetched ahead and turned into Arrow
- `formats`        values as JSON, Avro, protobuf, CSV and text: typed columns
- `arrow`          columns of the wire's core as Arrow arrays
- `writers`        batch and streaming writes, as Spark calls them
- `outgoing`       which columns rows must have, and the batches that they become, as values (pure)
- `rows`           where rows go, and how they become batches
- `sending`        batches on their way to the brokers
- `staging`        where encoded rows wait for their transaction
- `nearby`         which brokers are on this machine
- `machine`        which processes see the same files
- `near_files`     files beside them, which they take over as they are
- `exactly_once`   a micro-batch in one transaction, unless it is there already
- `lake`           the lake of an archive: Parquet files, and commits that say which count
- `copying`        records copied to topics once, with a durable map of their offsets
- `pipelines`      whole pipelines, declared in YAML and ready-made

Rule 1: executors and drivers are other people's processes: nothing here imports the broker.
Rule 2: no record becomes a Python object on the way: batches are decoded into column buffers natively. `formats` is
        the exception: Avro and protobuf have no native column decoder.
Rule 3: only `session`, `source`, `schemas`, the readers and writers and what runs a pipeline import PySpark; the rest
        is tested without.
"""
