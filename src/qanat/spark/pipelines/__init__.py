"""Pipelines: sources, SQL, windows and sinks, declared in YAML and run on Structured Streaming.

- `definition`  what a pipeline may say, as frozen values (pure)
- `document`    YAML with the line on which each value stands (pure)
- `decoding`    the one from the other, settings filled in; errors name file, line and the nearest right word (pure)
- `ordering`    what reads what: names that exist, which sinks run before which (pure)
- `durations`   "5 minutes" as seconds (pure)
- `ready_made`  what a pipeline that comes with the package is, and the list of them; add one there
- `coded`       what pipelines written in Python have in common: settings as a table, topics chosen and renamed
- `moments`     points in time as people write them (pure)
- `metrics`     measurements, checked, counted once, rolled up by the minute, five minutes, the hour
- `archive`, `archive_run`  topics into a lake
- `replay`, `replay_plan`, `replay_run`, `replay_drill`  a lake into topics, or compared with them
- `lake_frames` rows of a lake as a data frame
- `mirror`, `mirror_run`, `mirror_ways`  topics of one cluster in another
- `patience`    what Spark gives up because the machine is busy, tried again
- `query`       a streaming query that goes on after that
- `batches`     a streaming read whose micro-batches are handed to a function
- `work`        steps that are no streaming query and are watched like one
- `frames`      sources and steps as streaming data frames
- `windows`     event-time windows of several sizes in one pass
- `sinks`       streaming queries that write topics, Parquet and the terminal
- `topics`      topics that must be there before a query starts
- `launching`   a definition as running queries
- `progress`    what Spark tells of a query, added up (pure)
- `watching`    running queries: their progress, their end, a stop after the micro-batch at hand

Rule 1: a pipeline that comes with the package is one module and one line in `ready_made`.
Rule 2: only `frames`, `windows`, `sinks`, `patience`, `query`, `batches`, `lake_frames`, `…_run` and `…_drill` touch
        PySpark, and import it when they are called.
"""
