"""Commands that look at a running cluster as a whole.

- `diagnose`       what limits it, with evidence and remedy
- `top`            what it does, live: `activity` computes, `top_screen` draws
- `bundle`         one archive without secrets: `bundle_answers` asks, `redaction` hides, `bundle_file` writes and reads
- `cluster_load`   the readings of all brokers, over the protocol
"""
