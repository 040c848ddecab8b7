"""Recovery: what a stopped process left behind becomes a valid log.

- `log_recovery`             opening a log after a crash: segments, epochs, producers, bounds
- `active_segment_recovery`  unsealed segments: sound batches, torn tails, damage
- `compaction_commit`        a compaction that was decided and not finished

Rule: recovery only removes names and truncates tails, so that repeating or interrupting it changes nothing.
"""
