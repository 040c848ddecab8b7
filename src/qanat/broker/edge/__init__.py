"""The tree of brokers, carried out: the registry's store, and the child's side of pipes.

- `registry`           entries of the tree in the metadata store, and requests that wait for a change
- `edge_node`          this broker as a node: it registers, keeps its topology, and runs the pipe to its parent
- `down_pipe`          the pipe: asks the parent, in batches, and carries answers out
- `json_feed`          the same from a feed in JSON
- `mirrored_topics`    the topics that mirror a parent's: made, appended to, cut, begun again
- `up_pipe`            the way up: outboxes take turns on one connection to the parent
- `up_sender`          one partition of an outbox: its binding to the parent's topic, uploads, marks
- `up_chunks`          committed batches of an outbox, ready for an upload
- `http_client`        requests to registry and parents, on connections that are kept
- `edge_host`          the parts of a broker that these use
- `edge_state`         what a node remembers in its own store: topology, gaps, bindings

`qanat.edge` decides; nothing here does. The parent's side is `servers.http.edge`.
"""
