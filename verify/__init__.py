"""The second composition root: the same parts on a seeded disk, clock, network and store.

One log:

- `disk`, `disk_nodes`, `disk_faults`, `crash_image`   a disk that loses power, lies, fills up and rots
- `log_workload`, `log_rig`, `log_history`, `log_checks`, `crash_sweep`   a log on it, cut at every operation

A cluster: `clusters`.

Rule: one seed, one history. Nothing here may look at the wall clock, iterate a
set or lean on `hash()`.
"""
