"""`qanat doctor`: is this machine fit to run a broker?

- `doctor`          the command: runs every check, prints findings
- `finding`         the outcome of one check
- `machine_checks`  Python, native modules, libraries, limits, disk, Java
- `store_checks`    SQLite on this file system, etcd
"""
