"""Group coordinator: consumer groups, share groups and committed offsets, a ledger on `__consumer_offsets`.

- `settings`      settings of a coordinator, under Kafka's names
- `requests`, `replies`  its requests and replies, independent of the wire
- `decisions`     the outcome of a request, and when the shell may act on it
- `shard`         the groups of one partition: decide, tick, load
- `decision_builder` builds one decision
- `ledger`, `offsets`    the durable part: exactly what the records say
- `records`, `record_codec`  the records as values and as Kafka's bytes
- `classic`       groups whose members rebalance by joining and syncing
- `consumer`      groups of the new protocol (KIP-848), whose members follow the coordinator
- `share`         share groups (KIP-932), whose members read the same partitions
- `refusals`, `target_assignment`, `partition_rows`  what `consumer` and `share` have in common
- `assignors`     server-side partition assignors
- `group_overrides`  settings of a single group
- `committing`    OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete
- `retention`     expiry and deletion of offsets and groups
- `lag`           how far groups are behind, and whether that is a problem
- `timers`        names of timers (deadlines: `model.timers`)
- `client_regex`  regular expressions that clients send

Rule 1: a decision changes live state and ledger at once, and its answers wait until its records
        are durable; a failed append ends the shard (`decisions` says why and how).
Rule 2: state outside the ledger may be lost: clients rejoin.
Rule 3: order comes from dicts and lists; sets are tested for members, never iterated.
"""
