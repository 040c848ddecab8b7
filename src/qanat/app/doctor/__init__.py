"""`qanat doctor`: is this machine fit to run a broker, and is the broker protected?

- `doctor`          the command: runs every check, prints findings
- `finding`         the outcome of one check
- `machine_checks`  Python, native modules, libraries, limits, disk, Java
- `store_checks`    SQLite on this file system, etcd
- `security_checks` listeners, authentication, files, certificates, users, rules
- `stored_security` users, rules and API keys of a metadata store
"""
