"""`qanat edge`: the tree of brokers, and what runs where records are used.

- `consumer`   the command of a consumer application
- `consuming/` its parts
- `tree`, `list`, `register`, `move`, `retire`   commands that ask a registry, by `registry_calls`
- `feed_registry`  the command of a registry for tests, which also feeds messages
- `cloud_feed`     its server
- `feed_delivery`  what it writes to a broker that does not pull
- `acceptance`     registry, broker and consumer application together, and what has to be seen
"""
