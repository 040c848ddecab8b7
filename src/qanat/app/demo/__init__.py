"""`make demo`: a broker and its log at work, on this machine's disk, checked as they go.

Each chapter measures, checks what it claims and fails the run if a claim does
not hold.

- `claims`   what must be so
- `broker`   a broker process, driven by librdkafka, killed and started again
- `metrics`  made-up but lifelike measurements, and their plain totals to compare with
- `chapters` the log driven directly: ingest durably, read back as columns, die and recover, compact
- `writer`   the process that is killed there
"""
