"""Reads: batch and streaming, on the driver and on executors.

- `batch_reader`     a batch read on the driver: ranges of offsets, split for executors
- `stream_reader`    a streaming read on the driver: the end of each micro-batch
- `range_reader`     an executor's part of either: batches fetched ahead and decoded into Arrow
- `offset_lookup`    the driver's blocking client: partitions, offsets, positions of groups
- `filter_pushdown`  partitions, offsets and times that filters exclude (pure)
- `trigger_rows`     the end of a micro-batch with a limit in rows (pure)
- `trigger_bytes`    the end of a micro-batch with a limit in bytes
- `data_loss`        records that are no longer there, reported exactly

Rule: only `batch_reader` and `stream_reader` import PySpark.
"""
