"""The broker: the asyncio application around the cores. It leads and follows partitions, coordinates, and waits.

The wiring, at the top:

- `broker`                 makes the parts below, connects them, starts and stops them
- `metadata_events`        dispatches changes of the metadata to the parts that they concern
- `coordinator_takeover`   coordinators load the internal partitions that this broker begins to lead
- `group_lag`              collects how far the groups of this broker are behind, around `groups.lag`

The packages, each with its own list of modules:

- `edge`           the tree of brokers: the registry, and the pipe from a parent
- `share`          share groups: records acquired, acknowledged and persisted
- `coordinators`   group coordinator and transaction coordinator
- `controller`     elections, auto rebalance, failure detection: the work of one broker at a time
- `replicas`       replicas on this broker: led, followed, fetched from, repaired
- `metadata`       the metadata image, our registration, and changes that clients ask for
- `security`       users and ACLs: the built-in authorizer, SCRAM verifiers
- `settings`       settings of brokers, topics and groups
- `runtime`        tasks, clock, cooperative yields, links to other brokers

Rule 1: everything here runs on one event loop; work that blocks is a job of `log.runtime`, in a worker.
Rule 2: a package imports only packages below it in this list; `coordinators` and `controller` do not know each other,
        nor do `security`, `settings` and `runtime`. `make check` enforces this, types included.
Rule 3: a part never names `Broker`. It takes what it needs as arguments, or as a protocol that it declares itself.
"""
