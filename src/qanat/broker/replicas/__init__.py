"""The replicas on this broker: partitions that it leads, replicas that follow other leaders, and clients' reads of
both.

Which replicas there are:

- `local_replicas`          opens, leads, follows and removes replicas, as the metadata image says
- `partition_lookup`        partitions for clients, by name or id, or the error
- `controlled_shutdown`     other brokers take over leadership before this one stops

As the leader:

- `partition`               one partition that we lead: appends, reads, and the clients that wait for either (compiled)
- `durable_acknowledgement`  the acknowledgement of appended batches with acks=all
- `isr_changes`             followers' progress, and changes of the in-sync sets

As a follower:

- `replica_fetchers`        fetches from leaders, appends and truncates
- `replica_fetch_session`   the fetch session of such a fetcher
- `replication_throttles`   how fast replicas may catch up

Reads:

- `fetch`                   one fetch of many partitions: read now, or park
- `parked_fetch`            a fetch that waits for records, of any kind
- `fetch_sessions`          clients that name only what changed
- `replica_selector`        the replica that a consumer should fetch from (KIP-392)
- `follower_fetching`       consumers that fetch from a follower here

Faults:

- `storage_faults`          a failed data directory, damaged logs
- `replica_faults`          damaged and offline replicas, reported in the store
- `replica_logs`            what our logs hold, as proofs for elections

`replication` decides what is committed, which replicas are in sync, and where to truncate.
"""
