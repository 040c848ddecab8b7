"""The asyncio shell of a data directory: where callers wait, and where blocking work leaves the event loop.

- `log_runtime`      appends, reads and changes of single logs, for the broker
- `append_fast_path` the fast path of a small batch (compiled)
- `waiting_appends`  appends that wait: for a worker, for the disk, for earlier appends
- `staged_files`     files of batches that are uploaded, then ingested or appended, dropped or expired
- `append_queue`     one queue per log: appends are written in the order in which they came
- `append_fairness`  a bound on the bytes written in one iteration of the event loop
- `group_commit`     one fsync acknowledges many appends
- `sync_future`      a future that calls back in the same iteration of the event loop
- `cold_reads`       reads that wait for the disk: pages, lost tables, look-ups by time
- `workers`          the threads, and how work gets there and back
- `fsync_thread`     the thread that waits for fsync, or the event loop where only one client is served
- `segment_leases`   segments that a worker reads are not closed
- `maintenance`      periodic work: retention, compaction, checkpoints, scrubbing

Rule 1: jobs run in workers, `begin_...` and `finish` on the event loop; only one fsync may block it (`fsync_thread`).
Rule 2: every wait ends: with the disk's answer, or with the directory's failure.
"""
