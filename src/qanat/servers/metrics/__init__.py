"""The metrics' door: what a broker counts, as the text that Prometheus reads.

- `families`   every metric: name, kind, meaning, and where its numbers come from
- `process`    what the operating system says of this process, and how late the event loop is
- `exposition` the text format
- `text`       everything that is counted, in pieces that hold up nobody's produce
- `listener`   `GET /metrics` on an address of its own

Rule: nothing is computed before somebody asks; the hot path only adds to slots (`telemetry`).
"""
