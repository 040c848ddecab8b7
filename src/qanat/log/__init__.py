"""A partition's segmented log: where data is kept or lost.

- `files`           the port to the disk; adapters and the simulated disk stand behind it
- `settings`        the topic settings that the log obeys, under Kafka's names
- `indexes`         sparse look-up tables beside a segment, rebuilt rather than trusted
- `segment`         one `.log` file with its indexes and its sidecar
- `producers`       idempotent producers' sequences and open transactions
- `leader_epochs`   which leader wrote from which offset on
- `partition_log`   all of it together: append, read, look up, truncate, expire
- `recovery`        what a stopped process left behind, made into a valid log again
- `compaction`      the latest value of each key, swapped in crash-safely
- `directory`       many logs under one lock: checkpoints, clean-shutdown marker, failure
- `runtime`         the asyncio shell: group commit, cold reads, upkeep

The log decides on its owner's thread and hands slow file work out as jobs
(`jobs`): a job is run on a worker and finished on the owner's thread.
"""
