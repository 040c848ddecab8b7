"""A data directory: its lock, its logs, and the files that describe them.

- `identity`           whose data it is: `meta.properties`, and a topic's id in each partition's folder
- `checkpoints`        Kafka's offset checkpoints: hints for recovery
- `catalogue`          every partition and segment as a clean shutdown left it
- `partition_folders`  folders of partitions: names, deletion, and noticing lost ones
- `directory`          the directory itself: open, create, delete, checkpoint, close
- `storage_engine`     the port for storage engines
"""
