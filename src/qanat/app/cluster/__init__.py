"""`qanat cluster`: several brokers as one, a module per command.

A cluster on this machine:

- `up` `restart` `down`   the commands
- `cluster_plan`          its brokers: ports, settings, command lines
- `pid_file`              the lock on its data directory, and the pids for other commands
- `supervisor`            its processes: started, watched, restarted, stopped
- `local_cluster`         a plan run until the operator stops it

Any cluster:

- `status` `upgrade` `reassign` `drain` `rebalance` `elect` `throttle`   the commands
- `cluster_view`          brokers and partitions from the cluster's metadata
- `replica_faults`        damaged or offline replicas, waiting elections
- `unclean_losses`        what an unclean election would lose
- `reassignment_plan`     the moves that `cluster reassign` requests
- `partition_moves`       moves planned, requested, awaited
- `replication_throttle`  KIP-73: `--throttle` of moves
"""
