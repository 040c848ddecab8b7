"""Counters and histograms as plain slots, and the events worth a log line.

- `histogram`       numbers sorted into buckets
- `log_counters`    what the logs of a data directory have done
- `door_counters`   what clients asked of a listener, and what they got
- `http_counters`   the same over HTTP
- `broker_counters` what the broker itself has done
- `events`          one line per event worth knowing

Counting costs one addition on the hot path; turning the counts into
Prometheus text or JSON lines is the work of the doors (`servers`, `app`).
Cores may import the counters, and nothing else from here.
"""
