"""Groups over HTTP: consumer groups and share groups.

- `subscribe`          operations of group members; `members` joins and beats for them
- `group_description`  state, type and members of a group
- `queues`             operations of share groups: acquire, acknowledge, leave; `queue_description` describes them
- `group_lag`          lag of groups, as their coordinators have collected it; `lag_reports` reads it
- `group_admin`        list, describe, offsets, reset, delete; `committed_offsets` fetches and commits them
"""
