"""Chaos testing of a real cluster: three brokers in network namespaces, real clients, faults, the simulation's checker.

    make chaos                                  30 minutes on SQLite
    make chaos SECONDS=300 ARGS="--store etcd"  five minutes on etcd
    python -m verify.chaos --help

- `network`      a bridge, a namespace for each machine, directions that can be cut
- `disk`         a disk that is full or fails its syncs on command (`failing_disk.c`, preloaded)
- `brokers`      the brokers' processes
- `stores`       the metadata store, and its faults
- `plan`         kinds and times of faults, drawn from a seed
- `faults`       fault injection, by kind
- `lying_disks`  a disk that lies while all brokers are down, with the damage of `disk_damage`
- `convergence`  waits until every partition has a leader and all its replicas are in sync
- `journal`      what clients sent and read, on disk
- `client`       the parts that all client processes share: pacing, reports, the order to finish
- `librdkafka_writer`, `transactional_writer`, `aiokafka_writer`   the producers
- `reader`       the consumers: along with the producers, as a group member, everything in the end
- `workload`     all these processes
- `judge`        the journals, checked by `verify.clusters.checker`
- `replicas`     whether all replicas of a partition are the same
- `report`       figures, and their requirements
- `run`          one run, from setup to cleanup

The seed alone decides which faults come; it does not decide what they meet. A seed replays the plan, not the history.
"""
