"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members follow at their own pace.

- `records`      what is written about a group, as values; Kafka's own schemas (`groups.record_codec`)
- `group`        a group as its records have it: members, target, and who owns which partition
- `heartbeat`    ConsumerGroupHeartbeat: join, say what is new, learn what to read
- `requirements` what a heartbeat must be, and who may send it
- `leaving`      how members go: by leaving, by silence, by not letting go
- `subscriptions` what a group reads: topics, expressions, and when that has changed
- `target`       the assignment that members are on their way to
- `reconciliation` one member's next step on that way: let go first, then take
- `classic_members` members that speak the classic protocol in such a group
- `migration`    a classic group becomes a group of this kind, and back
- `embedded`     what classic members tell each other, read and written
- `offsets`      who may commit and fetch
- `view`         ConsumerGroupDescribe, and such groups in ListGroups
- `sessions`     deadlines of members

Rule 1: everything but deadlines is in the records; a crash loses nothing that a member was told.
Rule 2: a partition is given to a member only when nobody owns it: who had it has said that it let go, or is out.
Rule 3: epochs only grow. The group's grows when what it reads or who reads it changes; a member's follows.
"""
