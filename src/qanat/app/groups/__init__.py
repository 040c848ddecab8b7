"""`qanat group`: consumer and share groups, a module per command.

- `list`        the groups of every broker
- `describe`    members, committed offsets and lag
- `lag`         the lag of all groups, as brokers collect it
- `delete`
- `reset`       `qanat group reset`, also `seek`: commit other offsets
- `group_view`  a group as its coordinator describes it, in any protocol
- `group_lag`   lag in records and in time
"""
