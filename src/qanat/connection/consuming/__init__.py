"""Consumers of the Kafka protocol: places in groups, fetch sessions, positions of partitions.

- `consumer_member`      one member in the protocol of KIP-848 (pure)
- `consumer_membership`  the same, with its heartbeats and its reconciliations
- `classic_membership`   the same port on the classic protocol, eager or cooperative
- `chosen_membership`    the newest protocol that broker and group have
- `group_place`          a place in a group: the port of the three
- `member_ids`           ids that members choose
- `coordinator`          the link to a group's coordinator, kept until it moves
- `group_commits`        offsets committed by a member
- `sticky_assignor`      Kafka's cooperative-sticky assignor (pure)
- `fetch_sessions`       incremental fetch sessions of KIP-227 (pure)
- `partition_cursor`     where to fetch a partition next: resets, leader epochs, truncation (pure)
- `topic_views`          topics with ids, leaders and leader epochs
- `epoch_ends`           where leader epochs end: OffsetForLeaderEpoch

Rule 1: heartbeats have a task of their own, and wait for no listener.
Rule 2: a partition is given back only after the listener of its revocation has returned, or its time is over.
"""
