"""The transaction coordinator: producer ids, transaction states, markers. A ledger on `__transaction_state`.

- `states`        the states of a transaction, with Kafka's names and numbers
- `settings`      settings of a coordinator, under Kafka's names
- `requests`, `replies`  its requests and replies, independent of the wire
- `decisions`     the outcome of a request, and when the shell may act on it
- `shard`         the transactional ids of one partition: decide, tick, load
- `decision_builder` builds one decision
- `ledger`        the durable part: exactly what the records say
- `records`, `record_codec`  the records as values and as Kafka's bytes
- `init_producer_id` InitProducerId: a new epoch for a producer, and the end of its predecessor's transaction
- `add_partitions`  AddPartitionsToTxn and its verification
- `end_transaction` EndTxn, timeouts, and the completion after the markers are written
- `describe`        DescribeTransactions, ListTransactions
- `transactional_id_expiration`        expiry of transactional ids

Rule 1: a decision changes the ledger at once; its answer waits until its records are durable, and its
        markers are written after that and not before (`decisions`).
Rule 2: a prepared transaction ends the way it was prepared, whichever coordinator finds it (C38).
Rule 3: ending another producer's transaction raises the epoch: that producer is fenced.

`log.producers` holds a partition's own state of open transactions.
"""
