"""Share groups on this broker (KIP-932): records that their members acquire, acknowledge and release.

- `share_host`          what share groups need of their broker
- `share_sessions`      which partitions a member fetches from
- `share_fetch`         one ShareFetch: acquire records, or park
- `share_partition`     one partition of one group, on the broker that leads the partition
- `share_partitions`    all of them: loaded on first use
- `delivery_policies`   the settings for a group's deliveries
- `dead_letters`        records that a group has given up, written to another topic
- `consume_retention`   `cleanup.policy=consume`: records are deleted once all groups are past them
- `state_coordinator`   the share coordinator: durable state in `__share_group_state`
- `remote_state`        the same state on another broker
- `administration`      describe, move, reset and delete groups

`groups.share` decides; groups' members are in `broker.coordinators.group_coordinator`.
"""
