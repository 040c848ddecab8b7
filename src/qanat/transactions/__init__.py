"""The transaction coordinator: producer ids, transaction states, markers. A ledger on `__transaction_state`.

- `states`        what a transaction can be, in Kafka's words and numbers
- `settings`      what a coordinator may be told, under Kafka's names
- `requests`, `replies`  what it may be asked and what it answers, in its own words
- `decisions`     what comes of a request, and when the shell may act on it
- `shard`         the transactional ids of one partition: decide, tick, load
- `turn`          one decision in the making
- `ledger`        the durable part: exactly what the records say
- `records`, `record_codec`  the records as values and as Kafka's bytes
- `initialising`  InitProducerId: an epoch for a producer, and the end of its predecessor
- `adding`        AddPartitionsToTxn and its verification
- `ending`        EndTxn, timeouts, and what follows when the markers are written
- `looking`       DescribeTransactions, ListTransactions
- `expiry`        how transactional ids end

Rule 1: a decision changes the ledger at once; its answer waits until its records are durable, and its
        markers are written after that and not before (`decisions`).
Rule 2: a prepared transaction ends the way it was prepared, whoever finds it (C38).
Rule 3: whoever ends a transaction that is not his own raises the epoch: the producer is fenced.

A partition's own view of open transactions is in `log.producers`.
"""
