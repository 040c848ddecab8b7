"""The second composition root: the same parts on a seeded disk, clock, network and store.

One log:

- `disk`, `disk_nodes`, `disk_faults`, `crash_image`   a disk that loses power, lies, fills up and rots
- `log_workload`, `log_rig`, `log_history`, `log_checks`, `crash_sweep`   a log on it, cut at every operation

A cluster:

- `loop`             an event loop whose clock jumps, and whose callbacks belong to machines
- `network`, `store`, `machine`   connections, the metadata store and hosts, all of which fail
- `cluster_run`      one life from one seed; `cluster_clients` use it, `cluster_checks` look into it
- `history`, `checker`   what clients saw, and what they may not see
- `cluster_sweep`    many lives, and the command that runs them

Rule: one seed, one history. Nothing here may look at the wall clock, iterate a
set or lean on `hash()`.
"""
