"""A partition's segmented log: where data is kept or lost.

One log, from the disk up:

- `files`, `names`, `whole_files`   the port to the disk; how files are called; small files replaced whole
- `settings`                        what a topic and a data directory may be told, under Kafka's names
- `scan`                            reading bytes without believing them: sound batches, damage
- `header_digest`, `verification`   what checksums leave out: offsets and leader epochs; everything wrong in a segment
- `indexes`, `tables`, `aborted`    sparse look-up tables beside a segment, rebuilt rather than trusted
- `sidecar`, `segment`              one `.log` file with all that belongs to it
- `producers`, `snapshots`          idempotent producers' sequences and open transactions
- `leader_epochs`                   which leader wrote from which offset on
- `admission`, `record_faults`      what a client's batch must satisfy; which records of it do not
- `partition_log`                   all of it together: append, read, bounds
- `reading`, `lookup`, `warming`    slices of mapped segments; records by time; what is not in memory

What changes a log besides ordinary appends, each a job (`jobs`): decided on the owner's
thread, run on a worker, finished on the owner's thread:

- `large_append`                    a batch that takes too long to write on the owner's thread
- `noted_damage`                    damage found while the log was open, kept for the next start
- `adoption`                        a file of batches made beside the broker that becomes a segment
- `flush`                           group commit and sealing
- `truncation`, `retreat`           cutting the end off; in place, where nobody has looked
- `retention`                       letting the beginning go
- `compaction`, `cleaning`, `swap`  the latest value of each key: the pass, the decision, the commit

Many logs, and what a stopped process left behind:

- `recovery`, `unsealed`, `replay`  made into a valid log again
- `directory`, `directory_state`    a data directory: lock, clean-shutdown marker, failure
- `folders`                         partitions' folders: how they go, and that nobody else removes them unnoticed
- `catalogue`, `checkpoints`, `identity`   what makes a start quick, what recovery goes by, whose data it is
- `engine`                          the port for storage engines
- `runtime`                         the asyncio shell: group commit, cold reads, upkeep
"""
