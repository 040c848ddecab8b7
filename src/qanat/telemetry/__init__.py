"""Counters, histograms and log events.

- `histogram`          numbers sorted into buckets
- `log_counters`       counters of the logs of a data directory
- `listener_counters`  counters of a Kafka listener: requests and responses by API
- `http_counters`      counters of the HTTP server
- `broker_counters`    counters of the broker itself
- `share_counters`, `transaction_counters`  counters of queues and of transactions
- `producer_metrics`   what producers of the client have sent
- `events`             log events
- `exposition`         Prometheus' text format
- `pipeline_families`  metrics of pipelines

Counting costs one addition on the hot path; the servers turn the counts into
Prometheus text or JSON lines (`servers`, `app`).
Cores may import the counters, and nothing else from here.
"""
