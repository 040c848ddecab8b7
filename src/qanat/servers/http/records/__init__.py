"""Records over HTTP: write and read.

Write:
- `produce`                the operations; `produce_fast_path` a single record, `produce_results` the answers
- `record_parsing`         records as clients send them; `columnar_lines` very many lines at once
- `record_routing`         each record to its partition; `batching` records to batches
- `forwarding`             records for partitions that other brokers lead, written once
- `idempotency`            Idempotency-Key; `transactional_producer` the transaction around records and note

Read:
- `consume`                the operations; `partition_reads` fetches from all leaders, `record_json` records as JSON
- `search`                 records that meet a condition, a bounded piece at a time
"""
