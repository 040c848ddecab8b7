"""The APIs that write and read records.

- `produce`         Produce; `append` what it shares with HTTP, `transactional_produce` first writes of a transaction,
                    `refused_batches` batches behind a refused one
- `fetch`           Fetch; `parked_response` the response to a fetch that waits for records
- `leader_hints`    the current leader, for clients that ask the wrong broker (KIP-951)
- `list_offsets`, `offset_for_leader_epoch`, `delete_records`, `describe_producers`

Produce and Fetch of a single partition have fast paths (`servers.kafka`), which answer the same.
"""
