"""The tree of brokers over HTTP.

- `nodes`  the registry: register, place, list, retire, topology
- `pipe`   the parent's side of pipes: which topics there are, and batches of them
- `keyed_pulls` the same for children that want some keys
- `up`     the parent's side of the way up; `up_sessions` has a producer and a mark for each outbox
"""
