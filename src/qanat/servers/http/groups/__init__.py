"""Groups over HTTP: consumer groups and share groups.

- `subscribe`          operations of group members; `members` joins and beats for them
- `group_description`  state, type and members of a group
- `queues`             operations of share groups: acquire, acknowledge, leave
- `group_admin`        list, describe, offsets, reset, delete; `committed_offsets` fetches and commits them
"""
