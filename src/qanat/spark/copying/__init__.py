"""Records copied to topics of a cluster, each once, with a durable map from their old offsets to their new ones.

- `inventory`    what a cluster holds besides records: topics and their settings, where groups stand
- `provision`    topics made, given more partitions and other settings
- `translation`  the map from old offsets to new ones (pure)
- `ledger`       the topic that keeps the map, and what stands in it
- `link`         a copy's end at the target: rows and the map in one transaction
- `tasks`        an executor's part: rows encoded and staged, with their old offsets
- `group_positions`  groups at the target, put where they stood at the source

Rule 1: the map is written in the transaction of the rows that it is about. How far a copy is, is read from it, and from
        nowhere else: rows before that are left out, so that a repeated batch changes nothing.
Rule 2: rows of a partition are copied in the order of their offsets.
"""
