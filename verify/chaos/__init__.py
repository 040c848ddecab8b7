"""Three brokers beaten up for real: processes in network namespaces, real clients, the simulation's checker as judge.

    make chaos                                  30 minutes on SQLite
    make chaos SECONDS=300 ARGS="--store etcd"  five minutes on etcd
    python -m verify.chaos --help

- `network`      a bridge, a namespace for each machine, directions in which nothing passes
- `disk`         a disk that is full or fails its syncs on command (`failing_disk.c`, preloaded)
- `brokers`      the brokers' processes
- `stores`       the metadata store, and what may happen to it
- `plan`         which faults come when, drawn from a seed
- `faults`       what each kind of fault does
- `lying_disks`  a disk that lies while all brokers are down; `lies` are what it does
- `wholeness`    whether every partition is led and all its replicas are in sync
- `journal`      what clients did and saw, on disk
- `client`       what every client's process shares: pacing, reports, the order to finish
- `librdkafka_writer`, `transactional_writer`, `aiokafka_writer`   who writes
- `reader`       who reads: along with the writers, as a member of a group, everything in the end
- `workload`     all these processes
- `judge`        what the journals show, by `verify.clusters.checker`
- `replicas`     whether all copies of a partition are the same
- `report`       figures, and what they should be
- `run`          all of it, from nothing to nothing

What a fault does is decided by the seed alone; what it meets is not. A seed replays the plan, not the history.
"""
