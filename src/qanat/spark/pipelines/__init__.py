"""Pipelines: sources, SQL, windows and sinks, declared in YAML and run on Structured Streaming.

- `definition`  what a pipeline may say, as frozen values (pure)
- `document`    YAML with the line on which each value stands (pure)
- `decoding`    the one from the other, settings filled in; errors name file, line and the nearest right word (pure)
- `ordering`    what reads what: names that exist, which sinks run before which (pure)
- `durations`   "5 minutes" as seconds (pure)
- `ready_made`  what a pipeline that comes with the package is, and the list of them; add one there
- `metrics`     measurements, checked, counted once, rolled up by the minute, five minutes, the hour
- `frames`      sources and steps as streaming data frames
- `windows`     event-time windows of several sizes in one pass
- `sinks`       streaming queries that write topics, Parquet and the terminal
- `topics`      topics that must be there before a query starts
- `launching`   a definition as running queries
- `progress`    what Spark tells of a query, added up (pure)
- `watching`    running queries: their progress, their end, a stop after the micro-batch at hand

Rule 1: a pipeline that comes with the package is one module and one line in `ready_made`.
Rule 2: only `frames`, `windows`, `sinks`, `launching` and `watching` touch PySpark, and import it when they are called.
"""
