"""Push beside NATS JetStream's push consumer and beside Kafka consumers: latency, rates, memory, slow consumers.

    python -m bench.push            everything; make bench-push does the same
    python -m bench.push --quick    a few minutes

- `__main__`          the command line
- `latency`           latency at 1,000 records/s, by turns on each system
- `rates`             records a second to one consumer, as single frames and in batches
- `idle`, `crowd`     ten thousand idle connections, and who keeps them
- `slow`              a quick consumer beside a hundred slow ones
- `acl`               how soon a removed permission ends subscriptions
- `drive_push`, `drive_nats_push`   a driver each, on the loops of `bench.peers`: a process per run
"""
