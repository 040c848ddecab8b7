"""One node: store, logs, broker and listeners, put together.

- `node`             the parts of a node, started in order and stopped in reverse
- `compose`          the logs of one data directory with their runtime
- `listeners`        the listeners of a node: TLS, authenticators and authorizer of each
- `security`         mechanisms and authorizer, built-in ones and plugins
- `oauth`            the identity providers of the listeners
- `broker_identity`  what this broker shows to other brokers, and how it knows them
- `file_watch`       certificates and passwords that are read again when they change
- `metadata_store`   the metadata store as settings say: SQLite, etcd or memory
- `node_names`       names of nodes, and the numbers that the store gives them
- `plugins`          parts of installed packages: storage engines, networks, assignors, authenticators, authorizers
- `etcd_connection`  from settings to an open metadata store in etcd
- `etcd_server`      etcd on this machine: find the program, run members of a local cluster
- `serving`          a node at work: opened, announced, closed at a signal
- `service_manager`  systemd: ready, stopping, watchdog
- `banner`           the summary that `qanat start` prints
- `event_log`        log events on stderr, as text or JSON

Rule: modules that take long to import are imported only where a node needs them; the port answers first.
"""
