"""Log compaction: of every key, the latest value stays.

- `compaction`        one pass over a log, as a job
- `retained_records`  which records stay: a decision per batch, without files

`recovery.compaction_commit` holds the second half of a pass's commit: recovery finishes it after a crash.
"""
