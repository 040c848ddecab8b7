"""The APIs of share groups (KIP-932): records, members, offsets, and the state between brokers.

- `share_fetch`, `share_acknowledge`  records; `acknowledgements` what both share
- `share_group_heartbeat`, `share_group_describe`  members
- `describe_share_group_offsets`, `alter_share_group_offsets`, `delete_share_group_offsets`  offsets;
  `offset_changes` what the last two share
- `initialize_share_group_state`, `read_share_group_state`, `write_share_group_state`, `delete_share_group_state`
  between the leader of a partition and the coordinator that stores its state; `state_rows` what they share
"""
