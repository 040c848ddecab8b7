"""Rollups of measurements: JSON in, windows of a minute, five minutes and an hour out, each measurement counted once.

On the way, in the order of a measurement:

- `rules`         when a record is late or from the future
- `measurements`  records judged: measurements as columns, the others with a reason
- `chunks`        columns packed into bytes, as they travel between tasks and into the state
- `intake`        the task of one topic partition: judges its records and packs them by shard
- `windows`       windows of one size as columns: merged, split, rolled up into larger ones
- `quantiles`     quantiles of many windows at once; rounding of values to within a relative error
- `shard`         the stateful step of one shard: drops duplicates, fills windows, closes them
- `output`        closed windows and dead letters as records of topics

Rule 1: nothing here imports PySpark: the whole computation is tested without it.
Rule 2: the same input gives the same windows, however it is cut into micro-batches: a series has one shard, a partition
        with unread records is in every micro-batch, and time stands at the slowest of the partitions that were read.
Rule 3: state is bounded by time: a minute's ids and values are dropped when it closes.
"""
