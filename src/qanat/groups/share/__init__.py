"""Share groups (KIP-932): members that read the same partitions together, record by record.

- `records`, `record_codec`  the records of a group, as values and as Kafka's bytes
- `group`        a group as its records have it
- `heartbeat`    ShareGroupHeartbeat: join, subscribe, learn the assignment
- `requirements` the checks of a heartbeat
- `subscriptions` what a group reads, and for which partitions it has a state
- `target`       the target assignment (`assignors.simple`)
- `sessions`, `removal`  sessions of members; removal of members and groups
- `view`         ShareGroupDescribe, and such groups in ListGroups
- `standing`     a group's progress in a partition: the port to the partitions' own ledger

and the partitions' side, which knows only the names of groups:

- `partition`    which member holds which records: acquire, acknowledge, release, archive
- `runs`, `record_states`  equal neighbouring records, as ranges; the states of a record
- `rules`, `offset_reset`  delivery rules of a group; where it starts
- `state_shard`  the ledger: the durable state of every group in every partition
- `state_records`, `state_codec`  its records, as values and as Kafka's bytes

Rule 1: everything but sessions is in the records, as in `consumer`.
Rule 2: several members may have one partition; the partition decides which of them gets which record.
"""
