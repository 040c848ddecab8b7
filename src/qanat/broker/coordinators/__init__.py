"""Coordinators of groups and transactions: each stores its state in an internal topic, one shard a partition.

- `coordinator_host`           what coordinators need of their broker
- `internal_topic`             the topic of a coordinator: created on first use, one shard a partition
- `shard_loading`              the load of a shard; requests wait, or get COORDINATOR_LOAD_IN_PROGRESS
- `coordinator_shard`          what every coordinator does with a decision: append, wait until durable, answer; tick;
  end
- `group_coordinator`          consumer groups and share groups, around `groups`
- `group_events`               log events about groups
- `transaction_coordinator`    transactions, around `transactions`
- `transaction_markers`        writes markers into partitions, on this broker or another
- `transaction_verification`   whether a transactional write belongs to an open transaction

Rule: a client is answered when the decision is durable, not before.

The coordinator of share groups' state is in `broker.share`.
"""
