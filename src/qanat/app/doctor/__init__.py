"""`qanat doctor`: is this machine fit to run a broker, and is the broker protected?

- `doctor`          the command: runs every check, prints findings
- `finding`         the outcome of one check
- `machine_checks`  Python, native modules, libraries, limits, disk, Java
- `store_checks`    SQLite on this file system, etcd
- `security_checks` listeners, authentication, files, certificates, users, rules
- `setup_checks`    replicas, the shared store, durability, creation of topics
- `setup_rules`     the table of all checks of a set-up, which environments share
- `stored_security` users, rules and API keys of a metadata store
"""
