"""The asyncio shell of a data directory: where the log waits, and where its blocking work leaves the loop.

- `group_commit` acknowledges what has reached the disk, many appends per fsync
- `prompt`       what is waited for, told in the turn in which it is there
- `loans`        segments that a worker reads are not closed under it
- `flusher`      who waits for fsync: a thread, or the loop where nobody else wants it
- `workers`      the threads, and how work gets there and back
- `cold`         reads that wait for the disk: pages, lost tables, look-ups by time
- `turns`        who writes in which turn of the loop
- `lines`        who appends to one log after whom
- `appends`      appends that wait: for a worker, for the disk, for those before them
- `log_runtime`  appends, reads and changes of single logs, for the broker
- `upkeep`       what happens by itself: retention, compaction, checkpoints, scrubbing

Rule 1: jobs run on workers, `begin_...` and `finish` on the loop; one fsync may be waited for there (`flusher`).
Rule 2: every wait ends: with the disk's answer, or with the directory's failure.
"""
