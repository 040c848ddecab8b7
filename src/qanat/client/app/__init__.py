"""`App`: handlers of records, with order, retries, dead letters, exactly once, queues and Arrow batches.

Pure cores, without clock, randomness or network:

- `durations`       "250ms", "1s..5m"
- `retry`           how often and when a failed record is tried again; policies by name
- `failures`        what becomes of a record after a failed attempt; calls the error handler
- `offset_tracker`  up to where a partition may be committed
- `lanes`           which record runs next, and what is back-pressure
- `shutdown`        the stages of a stop
- `health`          well, or not, and why
- `signatures`      what a handler takes, checked at import

Declarations and values: `app` (`App` and its decorators), `handlers`, `context`, `sending` (`Send`), `dead_letters`.

Shells: `worker` runs an app in this process, with one `stream_worker`, `queue_worker` or `batch_worker` per handler;
`worker_tools` is what these share. `slots` are the tasks of a stream, `own_context` keeps their records apart,
`transactions` are its commits with `exactly_once`, `pools` the `daemon_threads` and `handler_processes` of sync
handlers. They need of consumers and producers what `ports` says; `clients` makes those. `metrics`, `tracing` and
`health_server` are what an operator sees.
"""
