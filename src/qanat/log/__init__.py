"""A partition's segmented log.

From the disk up; a module imports only what stands above it here (`[tool.importlinter]`, contract `log-layers`):

- `files`, `atomic_files`             the port to the disk; small files, replaced as a whole
- `settings`, `leader_epochs`         settings of topics and data directories; which leader wrote which offsets
- `background_jobs`                   slow file work: begun by the owner, run in a worker, finished by the owner
- `segments/`                         one segment: its files, formats and damage
- `producers`, `producer_snapshots`   idempotent producers' sequences and open transactions, in memory and on disk
- `directory_state`                   what all logs of a data directory share: its failure, its unflushed bytes
- `admission`, `record_faults`        which batches of a client a topic accepts; which records it rejects
- `state_replay`                      producers, aborted transactions and tables, rebuilt from batches
- `page_warmup`, `log_reads`          reading cold pages in a worker; slices of mapped segments
- `appended`                          where an appended batch is
- `partition_log`                     one log: append, read, bounds (compiled)

Jobs on one log, each begun on the owner's thread, run in a worker, finished on the owner's thread:

- `large_append`                      a batch too large to write on the owner's thread
- `segment_ingest`                    a staged file of batches that becomes a segment
- `staged_parts`                      staged files on the disk: chunks of uploads, batches to append
- `flush_state`                       making appends durable; sealing segments
- `truncation`, `in_place_truncation` truncating the end: by a copy, or in place where no reader has seen it
- `retention`                         deleting the oldest segments
- `timestamp_lookup`                  offsets by timestamp
- `recorded_damage`                   damage found while the log is open, written down for the next start

Packages above single logs:

- `recovery/`                         what a stopped process left behind, made into a valid log
- `compaction/`                       the latest value of each key
- `directories/`                      a data directory: lock, identity, checkpoints, catalogue, clean shutdown
- `runtime/`                          the asyncio shell: group commit, cold reads, maintenance
"""
