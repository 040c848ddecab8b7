"""Metrics: what a broker counts, as the text that Prometheus reads.

- `families`    every metric: name, kind, meaning, and the source of its numbers
- `observed`    what they are read from, and the forms that most of them have
- `request_families`, `log_families`, `replica_families`, `group_families`, `handler_families`  the metrics by subject
- `process`     CPU, memory and descriptors of this process, and the lag of the event loop
- `spare_replicas`  partitions that cannot lose one more replica
- `text`        all metrics as text, made in pieces
- `listener`    `GET /metrics` on an address of its own

Rule: nothing is computed before a scrape; the hot path only adds to slots (`telemetry`).
"""
