"""The rules of a set-up: what `qanat doctor` grades, `qanat config check` shows and production refuses.

- `setup_rules`      the table of all rules, and what environments make of them
- `security_checks`  listeners, authentication, authorization, files, certificates
- `setup_checks`     replicas, the shared store, durability, creation of topics
- `sqlite_checks`    SQLite on its file system
- `finding`          the outcome of one check
"""
