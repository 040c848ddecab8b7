"""Producers: records to topics, with receipts, back-pressure and transactions.

- `settings`        what a producer can be told
- `partitioners`    the partition of a record
- `deliveries`      a batch until its records are acknowledged; receipts stand on it
- `accumulator`     records become batches, in bounded memory; shared by the caller's threads and the I/O loop
- `batches`         batches as they are sent: closed, compressed, cut where too large
- `sending`         one record into the accumulator: serialized, placed, added
- `producer_core`   what runs on the I/O loop: leaders, batches to `connection.pipelined_producer`, flush
- `transactions`    transactions of a producer
- `parts`           the parts of a producer, put together
- `async_producer`  `AsyncProducer`
- `sync_producer`   `Producer`

Rule 1: a send waits only where memory is full or a topic is new; it never fails for a full buffer.
Rule 2: records of a partition are written in the order of their sends.
"""
