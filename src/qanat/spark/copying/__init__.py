"""Records copied to topics of a cluster, each once, with a durable map from their old offsets to their new ones.

- `inventory`        topics, settings and positions of groups in a cluster
- `provision`        topics created, extended and configured
- `translation`      the map from old offsets to new ones (pure)
- `ledger`           the topic that stores the map, and its content
- `copy_target`      the target of a copy: rows and the map in one transaction
- `copy_task`        an executor's part: rows encoded and staged, with their old offsets
- `group_positions`  groups at the target, moved to their positions at the source

Rule 1: the map of some rows is written in their transaction. The position of a copy is in the map, and nowhere else:
        rows before it are skipped, so that a retried batch changes nothing.
Rule 2: rows of a partition are copied in the order of their offsets.
"""
