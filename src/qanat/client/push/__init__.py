"""Push: records as soon as they can be read, and records with durable acknowledgements, over Qanat's push protocol.

- `settings`   settings of both
- `subscriber` the core of a consumer: connections, resume, acknowledgements
- `consumers`  `AsyncPushConsumer` and `PushConsumer`
- `sender`     the core of a producer: numbers, repetition after a reconnection
- `producers`  `AsyncPushProducer` and `PushProducer`

Rule: a record counts as processed when the next one is asked for. Until then it comes again after a crash.
"""
