"""Runs of pipelines: their state in `__qanat_pipelines`, one run per name, and lag for any query.

- `run_topic`       the topic: created, read, written
- `run_processes`   the process behind a run: whether it still exists on this machine
- `run_recorder`    writes the state of one run, fences older ones of its name, and takes requests to stop
- `query_states`    the tally of a query as stored and exported state (pure)
- `secrets`         text without passwords (pure)
- `topic_lags`      lag in records and seconds, as the brokers know it
- `checkpoints`     offsets and notes in a checkpoint: whether a changed pipeline fits it
- `narrowing`       columns that were dropped, or have a narrower type (pure)
- `seen_ends`       lag in seconds from what a query reports (pure)
- `exporter`        progress of queries for Prometheus, on a port of its own
- `observer`        a listener for every query of a Spark session, for `exporter`

The records themselves are in `qanat.model.pipeline_runs`: the HTTP server reads them too.
"""
