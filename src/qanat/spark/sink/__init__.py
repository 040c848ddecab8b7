"""The sink: batch and streaming writes, at least once and exactly once.

- `writers`           the classes that Spark calls: `write` on executors, `commit` and `abort` on the driver
- `outgoing_columns`  the columns that rows must have, the target, encoded batches (pure)
- `row_batches`       rows partitioned and encoded into record batches
- `batch_sender`      record batches sent to the brokers
- `staging`           encoded rows of an unfinished micro-batch, in messages and files that the driver sends
- `row_staging`       where the rows of one task are staged: with the driver, or at which brokers
- `exactly_once`      a micro-batch in one transaction, unless it is written already
- `local_brokers`     brokers on this machine, and their staging folders
- `local_ingest`      files beside local brokers, which ingest them as segments
- `remote_ingest`     files that are uploaded to other brokers, which append or ingest them

Rule: every step of a write is a Python process that Spark starts; each imports only what it needs.
"""
