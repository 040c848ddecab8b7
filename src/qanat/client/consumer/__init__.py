"""Consumers: `AsyncConsumer` and `Consumer`, records one by one, in batches, or as Arrow.

- `async_consumer`      the asyncio consumer
- `sync_consumer`       the same, blocking
- `consumer_state`      what both say and do without waiting
- `reading`             what both share: taking, decoding, counting
- `settings`            settings under Kafka's names
- `consumer_core`       the I/O side: group, fetches, positions, commits
- `fetcher`             fetches ahead, bounded
- `positions`           offsets to begin at, leaders, validation
- `record_buffer`       records between the I/O loop and the user
- `assigned_partition`  one partition's chunks and offsets
- `offset_stores`       SQLite, or any two functions
- `broker_offsets`      the group's committed offsets
- `offset_claim`        offsets that go into a transaction
- `arrow_batches`       chunks as Arrow record batches
- `group_metadata`      what a transaction needs, and how a consumer is doing
"""
