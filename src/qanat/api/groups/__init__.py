"""The APIs of consumer groups: members, offsets, descriptions, coordinators.

- members: `join_group`, `sync_group`, `heartbeat`, `leave_group`; `consumer_group_heartbeat` (KIP-848)
- offsets: `offset_commit`, `offset_fetch`, `offset_delete`; `offset_rows`
- descriptions: `list_groups`, `describe_groups`, `consumer_group_describe`; `group_descriptions`
- `find_coordinator`, `delete_groups`
- shared with `api.share`: `authorization`, `group_descriptions`, `heartbeat_response`

The coordinator decides (`broker.coordinators.group_coordinator`); a handler translates.
"""
