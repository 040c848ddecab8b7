"""`qanat cluster`: several brokers as one.

- `plan`       which brokers a local cluster has, where each listens and what it is told
- `note`       who runs a cluster on a data directory: a lock, and what other commands are told
- `supervisor` their processes: started, watched, started again, stopped in good order
- `up`         `cluster up`, `cluster restart`, `cluster down`: a cluster on this machine
- `view`       what a cluster says of itself: brokers, partitions, who leads, who lags
- `faults`     replicas that are damaged or offline, elections that wait
- `losses`     what an unclean election would cost
- `status`     `cluster status`
- `upgrade`    `cluster upgrade`: the format level
- `moves`      `cluster reassign`, `drain`, `rebalance`, `elect`: replicas and leaders elsewhere
- `move_plan`  what `cluster reassign` is told to move
- `throttling` `--throttle` of moves, `cluster throttle`: how fast replicas may be copied
"""
