"""The APIs of transactions and producer ids.

- `init_producer_id`  ids and epochs of producers
- `add_partitions_to_txn`, `add_offsets_to_txn`, `txn_offset_commit`, `end_txn`  a producer's transaction
- `write_txn_markers`  its end in a partition, between brokers
- `list_transactions`, `describe_transactions`  for operators
- `transaction_errors`  errors for versions that lack the newer codes

The coordinator decides (`broker.coordinators.transaction_coordinator`); a handler translates.
"""
