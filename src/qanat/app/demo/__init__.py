"""`make demo`: the partition log at work, on this machine's disk, checked as it goes.

There is no broker yet, so nothing here speaks to a socket: the demonstration
drives the log itself, as the broker will. Each chapter measures, checks what
it claims and fails the run if a claim does not hold.

- `metrics`  made-up but lifelike measurements, and their plain totals to compare with
- `chapters` ingest durably, read back as columns, die and recover, compact
- `writer`   the process that is killed
"""
