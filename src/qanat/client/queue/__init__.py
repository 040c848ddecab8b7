"""Queues: members of share groups, whose records are locked for one consumer until it acknowledges them.

- `settings`        what a queue consumer can be told
- `verdicts`        what a consumer says about a record, and the fencing token
- `locks`           which records are locked for this consumer, and until when
- `chunks`          fetched records of one partition, before they become `Record`s
- `session_host`    what a session needs of its consumer
- `broker_session`  fetches, acknowledgements and renewals at one broker
- `member`          the consumer's work on the I/O loop: membership, brokers, the buffer
- `consumers`       `AsyncQueueConsumer` and `QueueConsumer`

Rule 1: a lock is renewed by the I/O loop, not by the user's code: a handler may take as long as `timeout` allows.
Rule 2: a record whose lock is lost is never acknowledged; its consumer learns of it by `on_lock_lost` and by
        `LockLostError`.
"""
