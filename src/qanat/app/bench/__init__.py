"""`qanat bench`: measure any cluster from outside, or the log on this machine; a module per command.

- `produce` `consume` `end_to_end` `rebalance` `partitions` `connections`   a cluster, measured by clients
- `log`          the log on this machine, each figure beside its physical limit
- `clients`      what the cluster commands share: options, worker processes, latencies, results
- `log_figures`  the figures of `qanat bench log`
- `figures`      a measured figure, its requirement, and whether it is met
- `report`       figures as a table and as JSON
- `machine`      the machine and versions of a run
- `workspace`    the folder that measurements fill, and its removal

Rule: a run removes everything that it created, whatever ends it.
"""
