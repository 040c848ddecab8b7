"""Share groups (KIP-932): members that work on the same partitions together, record by record.

- `records`, `record_codec`  what is written about a group, as values and as Kafka's bytes
- `group`        a group as its records have it
- `heartbeat`    ShareGroupHeartbeat: join, say what to read, learn what to work on
- `requirements` what a heartbeat must be, and who may send it
- `subscriptions` what a group reads, and of which partitions it keeps a state
- `target`       who works on what (`assignors.simple`)
- `sessions`, `removal`  how members go, and groups
- `view`         ShareGroupDescribe, and such groups in ListGroups
- `standing`     how far a group is in a partition: what is asked of the partitions' own ledger

and the partitions' side, which knows nothing of groups but their names:

- `partition`    who holds which records: giving out, getting back, giving up
- `runs`, `record_states`  records that are alike, as ranges; what a record can be
- `rules`, `beginning`     what holds for a group's deliveries; where it begins
- `state_shard`  the ledger: what is durable of every group in every partition
- `state_records`, `state_codec`  its records, as values and as Kafka's bytes

Rule 1: everything but sessions is in the records, as in `consumer`.
Rule 2: a partition may be several members'; which of them gets which record is decided at the partition.
"""
