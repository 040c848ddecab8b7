"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members follow at their own pace.

- `records`      the records of a group, as values; Kafka's own schemas (`groups.record_codec`)
- `group`        a group as its records have it: members, target, and the owner of each partition
- `heartbeat`    ConsumerGroupHeartbeat: join, report changes, learn the assignment
- `requirements` the checks of a heartbeat
- `leaving`      how members leave: by request, by session timeout, by rebalance timeout
- `subscriptions` what a group reads: topics, expressions, and whether that has changed
- `target`       the target assignment
- `reconciliation` one member's next step towards it: revoke first, then assign
- `classic_members` members that use the classic protocol in such a group
- `migration`    a classic group becomes a group of this kind, and back
- `embedded`     the classic members' embedded protocol, read and written
- `offsets`      who may commit and fetch
- `view`         ConsumerGroupDescribe, and such groups in ListGroups
- `sessions`     deadlines of members
- `removal`      tombstones of members and groups

Rule 1: everything but deadlines is in the records; a crash loses nothing that a member was told.
Rule 2: a partition is assigned to a member only when it has no owner: the former one has revoked it, or is removed.
Rule 3: epochs only grow. The group's grows when its subscriptions or members change; a member's follows.
"""
