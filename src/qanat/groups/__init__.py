"""Consumer groups and committed offsets: a ledger on `__consumer_offsets`.

- `settings`      what a coordinator may be told, under Kafka's names
- `requests`, `replies`  what it may be asked and what it answers, in its own words
- `decisions`     what comes of a request, and when the shell may act on it
- `shard`         the groups of one partition: decide, tick, load
- `turn`          one decision in the making
- `ledger`, `offsets`    the durable part: exactly what the records say
- `records`, `record_codec`  the records as values and as Kafka's bytes
- `classic`       groups whose members rebalance by joining and syncing
- `consumer`      groups of the new protocol (KIP-848), whose members follow the coordinator
- `share`         share groups (KIP-932), whose members work on the same partitions
- `assignors`     who reads what, where the coordinator decides
- `own_settings`  what can be set for a single group
- `committing`    OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete
- `retention`     how offsets and groups end
- `timers`        what is waited for (deadlines: `model.timers`)

Rule 1: a decision changes live state and ledger at once, and its answers wait until its records
        are durable; a failed append ends the shard (`decisions` says why and how).
Rule 2: whatever is not in the ledger may be lost: clients rejoin.
Rule 3: order comes from dicts and lists; sets are only asked, never iterated.
"""
