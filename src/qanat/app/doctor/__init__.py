"""`qanat doctor`: is this machine fit to run a broker, and is the broker protected?

- `doctor`          the command: runs every check, prints findings
- `machine_checks`  Python, native modules, libraries, limits, disk, Java
- `store_checks`    etcd
- `stored_checks`   users, rules and API keys
- `stored_security` the same, read from a metadata store

Checks of a set-up are in `app.rules`, which others share.
"""
